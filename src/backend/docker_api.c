/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/docker_api.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"

/* The oldest and newest versions of the API this was written for. */
enum { OLDEST = 40, NEWEST = 43 };
/* An answer larger than this is not one to any question asked here. */
enum { ANSWER_MAX = 4 << 20, VERSION_TIMEOUT_MS = 5000, HEADER_MAX = 8192 };

struct docker_api {
	CURL *curl;
	char socket[108];
	char version[8]; /* "1.41" */
	char engine[64];
};

const char *docker_api_version(const struct docker_api *api)
{
	return api->version;
}

const char *docker_api_engine(const struct docker_api *api)
{
	return api->engine;
}

/* A socket that cannot be used, and what to do about it. */
static int connect_error(const char *socket_path, int e, struct brig_error *err)
{
	cleanup_free char *shown = str_printable(socket_path);
	const char *path = shown ? shown : "?";

	err_set(err, BRIG_E_SETUP_FAILED, e, "docker", "the container engine at %.150s", path);
	if (e == EACCES || e == EPERM)
		err_fix(err, "you may not use this socket: join its group (often \"docker\", "
			     "which is as good as root), or use a rootless engine");
	else if (e == ENOENT)
		err_fix(err, "start the engine, or point DOCKER_HOST at its socket "
			     "(unix:///PATH)");
	else
		err_fix(err, "the engine is not running: start it (systemctl start docker)");
	return -e;
}

/* libcurl tells little about a socket; connecting tells all. */
static int connect_engine(const char *path, struct brig_error *err)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(err, BRIG_E_NO_MEMORY, errno, "docker", "a socket");
	if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
		return connect_error(path, errno, err);
	return take_fd(&fd);
}

static size_t on_data(char *data, size_t size, size_t n, void *arg)
{
	struct buf *b = arg;

	if (b->len + size * n > ANSWER_MAX)
		return 0; /* ends the transfer */
	buf_add(b, data, size * n);
	return buf_ok(b) ? size * n : 0;
}

static int transfer_error(struct docker_api *api, CURLcode c, const char *path, size_t got,
			  struct brig_error *err)
{
	long os = 0;

	curl_easy_getinfo(api->curl, CURLINFO_OS_ERRNO, &os);
	if (c == CURLE_COULDNT_CONNECT)
		return connect_error(api->socket, os > 0 ? (int)os : ECONNREFUSED, err);
	int e = c == CURLE_OPERATION_TIMEDOUT ? ETIMEDOUT :
		c == CURLE_WRITE_ERROR && got + 65536 > ANSWER_MAX ? EMSGSIZE : EPROTO;
	err_set(err, BRIG_E_SETUP_FAILED, e, "docker", "the engine's answer to %.80s", path);
	err_fix(err, e == ETIMEDOUT ? "the engine hangs: look at its log" :
				      "is it a Docker or Podman engine that listens there?");
	return -e;
}

static void set_common(struct docker_api *api, const char *url, const char *method,
		       int timeout_ms, struct buf *to)
{
	CURL *c = api->curl;

	curl_easy_reset(c); /* keeps the connection */
	curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, api->socket);
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(c, CURLOPT_PROXY, "");
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075500
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http");
#else
	curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long)CURLPROTO_HTTP);
#endif
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, 3000L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, to);
}

static int request(struct docker_api *api, const char *method, const char *path,
		   const char *body, int timeout_ms, long *status, struct buf *answer,
		   struct brig_error *err)
{
	char url[1024];
	int n = snprintf(url, sizeof url, "http://engine%s%s%s", api->version[0] ? "/v" : "",
			 api->version, path);
	if (n < 0 || (size_t)n >= sizeof url)
		return err_set(err, BRIG_E_INTERNAL, EINVAL, "docker", "a path too long");
	set_common(api, url, method, timeout_ms, answer);
	struct curl_slist *headers = curl_slist_append(NULL, "Expect:");
	if (body) {
		headers = curl_slist_append(headers, "Content-Type: application/json");
		curl_easy_setopt(api->curl, CURLOPT_POSTFIELDS, body);
		curl_easy_setopt(api->curl, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
	} else if (streq(method, "POST")) {
		curl_easy_setopt(api->curl, CURLOPT_POSTFIELDS, "");
		curl_easy_setopt(api->curl, CURLOPT_POSTFIELDSIZE, 0L);
	}
	curl_easy_setopt(api->curl, CURLOPT_HTTPHEADER, headers);
	CURLcode c = curl_easy_perform(api->curl);
	curl_slist_free_all(headers);
	if (c != CURLE_OK)
		return transfer_error(api, c, path, answer->len, err);
	curl_easy_getinfo(api->curl, CURLINFO_RESPONSE_CODE, status);
	return 0;
}

int docker_api_call(struct docker_api *api, const char *method, const char *path,
		    const json_t *body, int timeout_ms, long *status, json_t **answer,
		    struct brig_error *err)
{
	cleanup_buf struct buf b = { 0 };
	cleanup_free char *text = NULL;

	if (answer)
		*answer = NULL;
	if (body && !(text = json_dumps(body, JSON_COMPACT)))
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "docker", "a request");
	int r = request(api, method, path, text, timeout_ms, status, &b, err);
	if (r < 0 || !answer || !b.len)
		return r;
	/* what is no JSON stays NULL, which no caller takes for an answer */
	*answer = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
	return 0;
}

int docker_api_error(struct brig_error *err, const char *what, long status,
		     const json_t *answer)
{
	const char *said = json_string_value(json_object_get(answer, "message"));
	cleanup_free char *shown = str_printable(said ? said : "");

	err_set(err, BRIG_E_SETUP_FAILED, 0, "docker", "%s: the engine says %ld%s%.300s", what,
		status, said ? ": " : "", said && shown ? shown : "");
	return -EIO;
}

/* What both sides know.  An engine older than the oldest is refused. */
static int agree(struct docker_api *api, const json_t *v, struct brig_error *err)
{
	const char *max = json_string_value(json_object_get(v, "ApiVersion"));
	const char *min = json_string_value(json_object_get(v, "MinAPIVersion"));
	const char *name = json_string_value(json_object_get(v, "Version"));
	int newest = 0, oldest = 0;
	char end;

	if (!max || sscanf(max, "1.%3d%c", &newest, &end) != 1) {
		err_set(err, BRIG_E_SETUP_FAILED, EPROTO, "docker",
			"what listens at %.100s is no container engine", api->socket);
		err_fix(err, "point DOCKER_HOST at Docker's or Podman's socket");
		return -EPROTO;
	}
	if (min && sscanf(min, "1.%3d%c", &oldest, &end) != 1)
		oldest = 0;
	if (newest < OLDEST || oldest > NEWEST) {
		err_set(err, BRIG_E_UNSUPPORTED, 0, "docker",
			"the engine speaks versions 1.%d to 1.%d of its API, brig 1.%d to 1.%d",
			oldest, newest, OLDEST, NEWEST);
		err_fix(err, newest < OLDEST ? "install Docker 19.03 or newer, or Podman 4" :
					       "install a newer brig");
		return -EOPNOTSUPP;
	}
	snprintf(api->version, sizeof api->version, "1.%d",
		 newest < NEWEST ? newest : NEWEST);
	str_clean(name ? name : "?", api->engine, sizeof api->engine);
	return 0;
}

int docker_api_open(const char *socket_path, struct docker_api **out, struct brig_error *err)
{
	json_t *v = NULL;
	long status = 0;

	int fd = connect_engine(socket_path, err);
	if (fd < 0)
		return fd;
	close(fd);
	struct docker_api *api = calloc(1, sizeof *api);
	if (!api || curl_global_init(CURL_GLOBAL_NOTHING) != CURLE_OK ||
	    !(api->curl = curl_easy_init())) {
		free(api);
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "docker", "libcurl");
	}
	snprintf(api->socket, sizeof api->socket, "%s", socket_path);
	int r = docker_api_call(api, "GET", "/version", NULL, VERSION_TIMEOUT_MS, &status, &v,
				err);
	if (r == 0 && status != 200)
		r = docker_api_error(err, "asking for its version", status, v);
	if (r == 0)
		r = agree(api, v, err);
	json_decref(v);
	if (r < 0) {
		docker_api_close(api);
		return r;
	}
	*out = api;
	return 0;
}

void docker_api_close(struct docker_api *api)
{
	if (!api)
		return;
	curl_easy_cleanup(api->curl);
	free(api);
}

/* Reads the answer's header, one byte at a time: what follows is not ours to
 * take.  101 and 200 both mean that the connection is a stream now. */
static int read_upgrade(int fd, long *status)
{
	big_buffer char head[HEADER_MAX + 1];
	size_t len = 0;

	while (len < HEADER_MAX) {
		ssize_t n = read(fd, head + len, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EPROTO;
		len++;
		if (len >= 4 && memcmp(head + len - 4, "\r\n\r\n", 4) == 0) {
			head[len] = '\0';
			return sscanf(head, "HTTP/1.%*1d %3ld", status) == 1 ? 0 : -EPROTO;
		}
	}
	return -EMSGSIZE;
}

int docker_api_attach(struct docker_api *api, const char *id, struct brig_error *err)
{
	char text[512];
	long status = 0;
	/* on a slow engine the answer takes a while; it must not take for ever */
	const struct timeval limit = { .tv_sec = 10 }, none = { 0 };

	cleanup_close int fd = connect_engine(api->socket, err);
	if (fd < 0)
		return fd;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	int n = snprintf(text, sizeof text,
			 "POST /v%s/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1 "
			 "HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
			 "Content-Length: 0\r\n\r\n", api->version, id);
	int r = fd_write_full(fd, text, (size_t)n);
	if (r == 0)
		r = read_upgrade(fd, &status);
	if (r == 0 && status != 101 && status != 200)
		return docker_api_error(err, "attaching to the container", status, NULL);
	if (r < 0)
		return err_set(err, BRIG_E_SETUP_FAILED, -r, "docker",
			       "attaching to the container");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
	return take_fd(&fd);
}
