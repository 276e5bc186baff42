/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netbench serve PORT | first|down|up HOST PORT COUNT [PROXY_PORT]
 *
 * NETBENCH_BLOCK bytes are written and read at once (256 KB).
 *
 * A server and a client for measuring a way through the network.  A connection
 * begins with a line: "f", "d BYTES", "u BYTES".  The client prints, for first,
 * the median microseconds from connect() to the first byte of an answer; for down
 * and up MB/s.  With PROXY_PORT it goes through an HTTP proxy on 127.0.0.1.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char block[1 << 20];
static size_t block_size = 256 * 1024; /* NETBENCH_BLOCK */

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void send_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
		if (k <= 0)
			die("send");
		p += k;
		n -= (size_t)k;
	}
}

static void read_line(int fd, char *out, size_t cap)
{
	size_t n = 0;

	while (n + 1 < cap && recv(fd, out + n, 1, 0) == 1)
		if (out[n++] == '\n')
			break;
	out[n] = '\0';
}

static void one_client(int fd)
{
	char line[64];
	long long n = 0;
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	read_line(fd, line, sizeof line);
	if (line[0] == 'f') {
		send_all(fd, "1", 1);
	} else if (line[0] == 'd') {
		for (n = atoll(line + 1); n > 0; n -= (long long)block_size)
			send_all(fd, block, n < (long long)block_size ? (size_t)n : block_size);
	} else if (line[0] == 'u') {
		n = atoll(line + 1);
		while (n > 0) {
			ssize_t k = recv(fd, block, block_size, 0);
			if (k <= 0)
				break;
			n -= k;
		}
		send_all(fd, "1", 1);
	}
	close(fd);
}

static void serve(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(s, (struct sockaddr *)&a, sizeof a) < 0 || listen(s, 512) < 0)
		die("listen");
	puts("ready");
	fflush(stdout);
	for (;;) {
		int fd = accept(s, NULL, NULL);
		if (fd >= 0)
			one_client(fd);
	}
}

static int dial(const char *host, int port, int proxy)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)(proxy ? proxy : port)) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	char line[256];

	if (inet_pton(AF_INET, proxy ? "127.0.0.1" : host, &a.sin_addr) != 1)
		die("address");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
		die("connect");
	if (proxy) {
		int n = snprintf(line, sizeof line, "CONNECT %s:%d HTTP/1.1\r\nHost: %s\r\n\r\n",
				 host, port, host);
		send_all(fd, line, (size_t)n);
		do {
			read_line(fd, line, sizeof line);
		} while (line[0] && line[0] != '\r');
	}
	return fd;
}

static int by_value(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return d < 0 ? -1 : d > 0;
}

static void first(const char *host, int port, int count, int proxy)
{
	double *t = calloc((size_t)count, sizeof *t);
	char c;

	for (int i = 0; t && i < count; i++) {
		double start = now();
		int fd = dial(host, port, proxy);
		send_all(fd, "f\n", 2);
		if (recv(fd, &c, 1, 0) != 1)
			die("recv");
		t[i] = now() - start;
		/* who closes first keeps the port for a minute: let it be the server,
		 * or connect() soon spends its time looking for a free one */
		while (recv(fd, &c, 1, 0) == 1)
			;
		close(fd);
	}
	if (t) {
		qsort(t, (size_t)count, sizeof *t, by_value);
		printf("%.1f\n", t[count / 2]);
	}
	free(t);
}

static void bulk(const char *host, int port, long long bytes, int proxy, int up)
{
	int fd = dial(host, port, proxy);
	char line[64];
	long long left = bytes;
	double start = now();
	int n = snprintf(line, sizeof line, "%c %lld\n", up ? 'u' : 'd', bytes);

	send_all(fd, line, (size_t)n);
	if (up) {
		for (; left > 0; left -= (long long)block_size)
			send_all(fd, block, left < (long long)block_size ? (size_t)left : block_size);
		if (recv(fd, line, 1, 0) != 1)
			die("recv");
	} else {
		while (left > 0) {
			ssize_t k = recv(fd, block, block_size, 0);
			if (k <= 0)
				die("recv");
			left -= k;
		}
	}
	printf("%.1f\n", (double)bytes / (now() - start));
}

int main(int argc, char **argv)
{
	const char *size = getenv("NETBENCH_BLOCK");

	if (size && atol(size) > 0 && atol(size) <= (long)sizeof block)
		block_size = (size_t)atol(size);
	signal(SIGPIPE, SIG_IGN);
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		serve(atoi(argv[2]));
	if (argc < 5)
		return 2;
	int port = atoi(argv[3]), proxy = argc > 5 ? atoi(argv[5]) : 0;
	if (strcmp(argv[1], "first") == 0)
		first(argv[2], port, atoi(argv[4]), proxy);
	else
		bulk(argv[2], port, atoll(argv[4]), proxy, argv[1][0] == 'u');
	return 0;
}
