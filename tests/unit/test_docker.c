/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The docker backend without an engine: the create call's body from a spec, the
 * key of a pool, the profile against the compiled filter, streams and frames in
 * every cut, what is read back, and the owner's label.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/docker_engine.h"
#include "base/str.h"
#include "bpf_sim.h"
#include "confine/seccomp.h"
#include "confine/seccomp_docker.h"
#include "confine/seccomp_table.h"

static char base[64];

static struct spec *spec_make(void)
{
	struct spec *s = calloc(1, sizeof *s);
	struct stat st;

	assert_non_null(s);
	strcpy(s->id, "01J00000000000000000000000");
	s->workspace = (struct spec_bind){ .src = strdup(base), .dst = strdup("/ws"),
					   .writable = true, .is_dir = true,
					   .fd = open(base, O_PATH | O_DIRECTORY) };
	assert_int_equal(fstat(s->workspace.fd, &st), 0);
	s->workspace.dev = st.st_dev;
	s->workspace.ino = st.st_ino;
	s->cwd = strdup("sub");
	s->home = strdup("/home/sandbox");
	s->image = strdup("img:1");
	s->docker_socket = strdup("/x.sock");
	s->host_uid = s->in_uid = 1234;
	s->host_gid = s->in_gid = 1235;
	s->limits = (struct spec_limits){ .memory = 64 << 20, .cpu_milli = 500, .pids = 20,
					  .tmp_size = 64 << 20, .file_size = 1 << 20 };
	strv_add(&s->argv, "id");
	strv_add(&s->env, "TOKEN=s3cret");
	strv_add(&s->protect, ".git/config");
	strv_add(&s->protect, ".envrc");
	return s;
}

static const struct docker_engine engine = { .runtime = "runc" };

struct made {
	struct spec *s;
	struct docker_job j;
	struct docker_recipe r;
};

static void make(struct made *m, struct spec *s, const struct docker_engine *e)
{
	struct brig_error err = { 0 };

	m->s = s;
	if (docker_job_init(&m->j, s, &err) < 0 || docker_recipe_build(&m->r, &m->j, e, &err) < 0)
		fail_msg("%s", err.message);
}

static void unmake(struct made *m)
{
	docker_recipe_free(&m->r);
	docker_job_free(&m->j);
	spec_free(m->s);
}

static const char *text_at(const json_t *v, const char *a, const char *b)
{
	v = json_object_get(v, a);
	return json_string_value(b ? json_object_get(v, b) : v);
}

static const json_t *mount_at(const json_t *host, const char *dst)
{
	size_t i;
	const json_t *m;

	json_array_foreach(json_object_get(host, "Mounts"), i, m)
		if (streq(json_string_value(json_object_get(m, "Target")), dst))
			return m;
	return NULL;
}

/* The list is the call's; that there is one, and in which form, is the container's. */
static void test_allow_list(void **state)
{
	struct made none, one, other, root;
	struct docker_recipe back;

	(void)state;
	make(&none, spec_make(), &engine);
	struct spec *s = spec_make();
	s->net = NET_ALLOW;
	strv_add(&s->allow, "a.test:80");
	make(&one, s, &engine);
	s = spec_make();
	s->net = NET_ALLOW;
	strv_add(&s->allow, "b.test:443");
	make(&other, s, &engine);
	s = spec_make();
	s->net = NET_ALLOW;
	s->as_root = true;
	make(&root, s, &engine);
	const json_t *h = json_object_get(one.r.body, "HostConfig");
	assert_string_equal(text_at(h, "NetworkMode", NULL), "none");
	assert_int_equal(json_array_size(json_object_get(h, "CapAdd")), 0);
	assert_string_equal(text_at(h, "Sysctls", "net.ipv4.ip_unprivileged_port_start"), "0");
	assert_null(json_object_get(json_object_get(root.r.body, "HostConfig"), "Sysctls"));
	assert_string_equal(none.r.resolver, "");
	assert_string_equal(one.r.resolver, "127.18.0.1");
	assert_string_equal(root.r.resolver, "198.18.0.1");
	assert_int_equal(one.r.key.len, other.r.key.len);
	assert_memory_equal(one.r.key.data, other.r.key.data, one.r.key.len);
	assert_true(none.r.key.len != one.r.key.len ||
		    memcmp(none.r.key.data, one.r.key.data, one.r.key.len) != 0);
	assert_memory_not_equal(root.r.key.data, one.r.key.data, one.r.key.len);
	/* the keeper makes the same containers */
	char *text = docker_recipe_text(&one.r);
	assert_null(strstr(text, "a.test"));
	assert_int_equal(docker_recipe_parse(&back, text, strlen(text)), 0);
	assert_string_equal(back.resolver, "127.18.0.1");
	docker_recipe_free(&back);
	free(text);
	unmake(&none);
	unmake(&one);
	unmake(&other);
	unmake(&root);
}

static void test_body(void **state)
{
	struct made m;
	char path[128];

	(void)state;
	make(&m, spec_make(), &engine);
	const json_t *b = m.r.body, *h = json_object_get(b, "HostConfig");
	assert_string_equal(text_at(b, "User", NULL), "1234:1235");
	assert_string_equal(text_at(b, "Image", NULL), "img:1");
	assert_string_equal(text_at(h, "NetworkMode", NULL), "none");
	assert_string_equal(text_at(h, "IpcMode", NULL), "private");
	assert_string_equal(text_at(h, "LogConfig", "Type"), "none");
	assert_true(json_is_true(json_object_get(h, "ReadonlyRootfs")));
	assert_true(json_is_false(json_object_get(h, "Privileged")));
	assert_true(json_is_false(json_object_get(h, "AutoRemove")));
	assert_int_equal(json_integer_value(json_object_get(h, "Memory")), 64 << 20);
	assert_int_equal(json_integer_value(json_object_get(h, "MemorySwap")), 64 << 20);
	assert_int_equal(json_integer_value(json_object_get(h, "NanoCpus")), 500000000);
	assert_int_equal(json_integer_value(json_object_get(h, "PidsLimit")), 20);
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(h, "CapDrop"), 0)), "ALL");
	assert_int_equal(json_array_size(json_object_get(h, "CapAdd")), 0);
	const json_t *opts = json_object_get(h, "SecurityOpt");
	assert_string_equal(json_string_value(json_array_get(opts, 0)), "no-new-privileges");
	assert_memory_equal(json_string_value(json_array_get(opts, 1)), "seccomp={", 9);
	/* the image's own programs never run before the evidence is in */
	assert_string_equal(json_string_value(json_array_get(
				    json_object_get(json_object_get(b, "Healthcheck"), "Test"), 0)),
			    "NONE");
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(b, "Entrypoint"), 0)),
		"/.brig/park");
	/* the workspace is writable, what is protected in it is not */
	assert_true(json_is_false(json_object_get(mount_at(h, "/ws"), "ReadOnly")));
	assert_true(json_is_true(json_object_get(mount_at(h, "/ws/.git/config"), "ReadOnly")));
	assert_true(json_is_false(json_object_get(mount_at(h, "/ws/.git"), "ReadOnly")));
	assert_null(mount_at(h, "/ws/.envrc"));
	snprintf(path, sizeof path, "%s/.git/config", base);
	assert_string_equal(
		json_string_value(json_object_get(mount_at(h, "/ws/.git/config"), "Source")), path);
	/* /tmp, /dev/shm and HOME together are what was given for all */
	assert_int_equal(json_integer_value(json_object_get(h, "ShmSize")), 16 << 20);
	assert_non_null(strstr(text_at(h, "Tmpfs", "/tmp"), "nosuid,nodev,size=33554432"));
	assert_non_null(strstr(text_at(h, "Tmpfs", "/home/sandbox"), "size=16777216"));
	unmake(&m);
}

static void test_no_secret_in_body_or_key(void **state)
{
	struct made m;

	(void)state;
	make(&m, spec_make(), &engine);
	char *text = docker_recipe_text(&m.r);
	assert_non_null(text);
	assert_null(strstr(text, "s3cret"));
	assert_null(memmem(m.r.key.data, m.r.key.len, "s3cret", 6));
	assert_null(memmem(m.r.key.data, m.r.key.len, "TOKEN", 5));
	free(text);
	unmake(&m);
}

static void test_variants(void **state)
{
	struct made m;
	struct brig_error err = { 0 };

	(void)state;
	struct spec *s = spec_make();
	s->runtime = strdup("runsc");
	s->net = NET_HOST;
	s->writable_root = true;
	strv_add(&s->add_caps, "NET_RAW");
	make(&m, s, &engine);
	const json_t *h = json_object_get(m.r.body, "HostConfig");
	assert_true(m.r.stream);
	assert_true(json_is_true(json_object_get(m.r.body, "OpenStdin")));
	assert_string_equal(text_at(h, "Runtime", NULL), "runsc");
	assert_string_equal(text_at(h, "NetworkMode", NULL), "host");
	assert_true(json_is_false(json_object_get(h, "ReadonlyRootfs")));
	assert_int_equal(json_array_size(json_object_get(h, "CapAdd")), 1);
	assert_false(docker_required(s) & LAYER_BIT(LAYER_CAPS));
	unmake(&m);

	const struct docker_engine remapped = { .runtime = "runc", .remapped = true };
	make(&m, spec_make(), &remapped);
	assert_true(m.r.stream);
	unmake(&m);

	s = spec_make();
	s->net = NET_ALLOW; /* out of reach of an engine that maps ids */
	assert_int_equal(docker_job_init(&m.j, s, &err), 0);
	assert_true(docker_recipe_build(&m.r, &m.j, &remapped, &err) < 0);
	assert_int_equal(err.code, BRIG_E_UNSUPPORTED);
	docker_job_free(&m.j);
	spec_free(s);

	s = spec_make(); /* never root, whatever the spec says */
	s->host_uid = s->host_gid = 0;
	s->in_uid = s->in_gid = 1000;
	assert_int_equal(docker_uid(s), 1000);
	assert_int_equal(docker_gid(s), 1000);
	s->idmapped = true;
	assert_true(docker_uid(s) >= 0x70000000u);
	spec_free(s);
}

/* Everything that shapes a container changes the key; what does not, does not. */
static void test_key(void **state)
{
	struct made a, b;

	(void)state;
	make(&a, spec_make(), &engine);
	for (int i = 0; i < 12; i++) {
		struct spec *s = spec_make();
		bool same = i >= 9;
		switch (i) {
		case 0: s->limits.memory++; break;
		case 1: s->limits.pids++; break;
		case 2: s->limits.cpu_milli++; break;
		case 3: free(s->image); s->image = strdup("img:2"); break;
		case 4: s->runtime = strdup("runsc"); break;
		case 5: free(s->workspace.dst); s->workspace.dst = strdup("/other"); break;
		case 6: s->host_uid++; break;
		case 7: strv_add(&s->masks, "/ws/m"); break;
		case 8: s->net = NET_HOST; break;
		case 9: strv_add(&s->env, "A=b"); break;
		case 10: strv_add(&s->argv, "-u"); break;
		case 11: s->limits.timeout_ms = 7; break;
		}
		make(&b, s, &engine);
		assert_int_equal(same, a.r.key.len == b.r.key.len &&
					       memcmp(a.r.key.data, b.r.key.data,
						      a.r.key.len) == 0);
		unmake(&b);
	}
	unmake(&a);
}

static void test_recipe_round_trip(void **state)
{
	struct made m;
	struct docker_recipe r;

	(void)state;
	make(&m, spec_make(), &engine);
	m.r.pool_size = 3;
	m.r.pool_idle_ms = 4000;
	char *text = docker_recipe_text(&m.r);
	assert_int_equal(docker_recipe_parse(&r, text, strlen(text)), 0);
	assert_true(json_equal(r.body, m.r.body));
	assert_int_equal(r.pool_size, 3);
	assert_int_equal(r.pool_idle_ms, 4000);
	assert_int_equal(r.n_paths, m.r.n_paths);
	assert_int_equal(r.hello.len, m.r.hello.len);
	assert_memory_equal(r.hello.data, m.r.hello.data, r.hello.len);
	assert_memory_equal(r.key.data, m.r.key.data, r.key.len);
	docker_recipe_free(&r);
	for (size_t cut = 0; cut < strlen(text); cut += 97)
		assert_true(docker_recipe_parse(&r, text, cut) < 0);
	free(text);
	unmake(&m);
}

/* --- the profile --- */

/* Calls whose exact rule the format cannot say: the profile may allow more. */
static bool weaker(const char *name)
{
	static const char *const list[] = { "ioctl", "socket", "prlimit64", "sched_setaffinity",
					    "sched_setattr", "sched_setparam",
					    "sched_setscheduler", "setpriority", "ioprio_set" };

	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		if (streq(list[i], name))
			return true;
	return false;
}

static uint32_t ask(const struct seccomp_prog *p, int nr, const uint64_t args[6])
{
	struct seccomp_data d = { .nr = nr,
				  .arch = seccomp_table_audit_arch(SECCOMP_ARCH_NATIVE) };

	memcpy(d.args, args, sizeof d.args);
	return bpf_sim_run(p->insns, p->len, &d, NULL);
}

static void test_profile(void **state)
{
	static const uint64_t values[] = { 0, 1, 2, 3, 6, 8, 10, 16, 17, 0x40, 0x540a, 0x5412, 0x541c,
					   0x5413, 06000, 04000, 0644, 04755, 0x8000, 0x2000,
					   0x81a4, 0x7e020000, 0x10000000, 0x20000000, 0x20008,
					   0xffffffff, 0x100005412u, 0x80002 };
	struct seccomp_prog *p = NULL;
	struct brig_error err = { 0 };
	struct buf b = { 0 };
	unsigned more = 0, errnos = 0, total = 0;
	const char *name;

	(void)state;
	assert_int_equal(seccomp_docker_json(&b), 0);
	if (seccomp_profile_compile(b.data, b.len, "made", &p, &err) < 0)
		fail_msg("%s", err.message);
	for (size_t i = 0; (name = seccomp_table_entry(i)); i++) {
		int nr = seccomp_call_number(name);
		for (size_t k = 0; nr >= 0 && k < 6 * ARRAY_LEN(values) * 3; k++) {
			uint64_t args[6] = { 0 };
			args[k % 6] = values[k / 6 % ARRAY_LEN(values)];
			args[(k + 1) % 6] = values[(k / 6 * 7) % ARRAY_LEN(values)];
			uint32_t want = ask(seccomp_default(false), nr, args);
			uint32_t got = ask(p, nr, args);
			total++;
			if (want == SECCOMP_RET_ALLOW && got != want)
				fail_msg("%s: the profile refuses what the policy allows", name);
			if (want != SECCOMP_RET_ALLOW && got == SECCOMP_RET_ALLOW) {
				if (!weaker(name))
					fail_msg("%s: the profile allows what the policy refuses",
						 name);
				more++;
			}
			errnos += got != want && got != SECCOMP_RET_ALLOW;
		}
	}
	/* known, few, and closed by the exact filter inside */
	assert_true(more > 0 && more < total / 100);
	assert_true(errnos < total / 20);
	seccomp_prog_free(p);
	buf_free(&b);
}

/* --- streams --- */

struct heard {
	char out[200], err[200];
	size_t n_out, n_err;
};

static int hear(void *arg, int stream, const char *data, size_t len)
{
	struct heard *h = arg;

	assert_true(stream == 1 || stream == 2);
	char *to = stream == 1 ? h->out + h->n_out : h->err + h->n_err;
	memcpy(to, data, len);
	*(stream == 1 ? &h->n_out : &h->n_err) += len;
	return 0;
}

static void test_demux(void **state)
{
	static const char bytes[] = "\1\0\0\0\0\0\0\5hello\2\0\0\0\0\0\0\3err\1\0\0\0\0\0\0\0"
				    "\1\0\0\0\0\0\0\2!!";
	const size_t n = sizeof bytes - 1;

	(void)state;
	for (size_t a = 0; a <= n; a++)
		for (size_t b = a; b <= n; b++) {
			struct docker_demux d = { 0 };
			struct heard h = { .n_out = 0 };
			assert_int_equal(docker_demux_feed(&d, bytes, a, hear, &h), 0);
			assert_int_equal(docker_demux_feed(&d, bytes + a, b - a, hear, &h), 0);
			assert_int_equal(docker_demux_feed(&d, bytes + b, n - b, hear, &h), 0);
			assert_int_equal(h.n_out, 7);
			assert_memory_equal(h.out, "hello!!", 7);
			assert_int_equal(h.n_err, 3);
		}
	static const char *const bad[] = { "\3\0\0\0\0\0\0\1x", "\1\1\0\0\0\0\0\1x",
					   "HTTP/1.1 400", "{\"message\":" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct docker_demux d = { 0 };
		struct heard h = { .n_out = 0 };
		assert_int_equal(docker_demux_feed(&d, bad[i], 9, hear, &h), -EPROTO);
	}
}

struct frames_seen {
	unsigned n;
	uint32_t type[8];
	size_t len[8];
};

static int see(void *arg, uint32_t type, const char *body, size_t len)
{
	struct frames_seen *s = arg;

	(void)body;
	assert_true(s->n < 8);
	s->type[s->n] = type;
	s->len[s->n++] = len;
	return 0;
}

static void test_frames(void **state)
{
	struct buf b = { 0 };
	const struct park_head heads[] = { { PARK_STARTED, 0 }, { PARK_OUT, 3 }, { PARK_STATUS, 0 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		buf_add(&b, &heads[i], sizeof heads[i]);
		buf_add(&b, "abc", heads[i].len);
	}
	for (size_t cut = 0; cut <= b.len; cut++) {
		struct docker_frames f = { 0 };
		struct frames_seen s = { 0 };
		assert_int_equal(docker_frames_feed(&f, b.data, cut, see, &s), 0);
		assert_int_equal(docker_frames_feed(&f, b.data + cut, b.len - cut, see, &s), 0);
		assert_int_equal(s.n, 3);
		assert_int_equal(s.type[1], PARK_OUT);
		assert_int_equal(s.len[1], 3);
		docker_frames_free(&f);
	}
	const struct park_head huge = { PARK_OUT, DOCKER_FRAME_MAX + 1 };
	struct docker_frames f = { 0 };
	struct frames_seen s = { 0 };
	assert_int_equal(docker_frames_feed(&f, (const char *)&huge, sizeof huge, see, &s), -EPROTO);
	docker_frames_free(&f);
	buf_free(&b);
}

/* --- what the engine stored --- */

static void test_readback(void **state)
{
	struct made m;
	struct brig_error err = { 0 };
	unsigned says;

	(void)state;
	make(&m, spec_make(), &engine);
	json_t *v = json_pack("{s:O, s:{s:O}, s:[]}", "HostConfig",
			      json_object_get(m.r.body, "HostConfig"), "Config", "User",
			      json_object_get(m.r.body, "User"), "Mounts");
	assert_int_equal(docker_readback(v, m.r.body, &says, &err), 0);
	assert_true(says & LAYER_BIT(LAYER_NET));
	assert_true(says & LAYER_BIT(LAYER_CGROUP));
	static const struct {
		const char *key, *value;
	} wider[] = { { "Privileged", "true" },
		      { "ReadonlyRootfs", "false" },
		      { "CapAdd", "[\"SYS_ADMIN\"]" },
		      { "Devices", "[{}]" },
		      { "SecurityOpt", "[\"seccomp=unconfined\"]" } };
	for (size_t i = 0; i < ARRAY_LEN(wider); i++) {
		json_t *w = json_deep_copy(v);
		json_object_set_new(json_object_get(w, "HostConfig"), wider[i].key,
				    json_loads(wider[i].value, JSON_DECODE_ANY, NULL));
		assert_true(docker_readback(w, m.r.body, &says, &err) < 0);
		assert_int_equal(err.code, BRIG_E_REQUIRE_UNMET);
		json_decref(w);
	}
	json_t *w = json_deep_copy(v);
	json_object_set_new(json_object_get(w, "HostConfig"), "NetworkMode", json_string("bridge"));
	assert_int_equal(docker_readback(w, m.r.body, &says, &err), 0);
	assert_false(says & LAYER_BIT(LAYER_NET));
	json_array_append_new(json_object_get(w, "Mounts"),
			      json_pack("{s:s, s:s, s:s, s:b}", "Type", "bind", "Source", "/",
					"Destination", "/host", "RW", 1));
	assert_true(docker_readback(w, m.r.body, &says, &err) < 0);
	json_decref(w);
	assert_true(docker_readback(NULL, m.r.body, &says, &err) < 0);
	json_decref(v);
	unmake(&m);
}

static void test_owner(void **state)
{
	char me[160], other[200], boot[64];
	unsigned long long ns, start;
	unsigned uid;
	int pid;

	(void)state;
	assert_int_equal(docker_owner(me), 0);
	assert_false(docker_owner_gone(me));
	assert_int_equal(sscanf(me, "1 %63s %llu %u %d %llu", boot, &ns, &uid, &pid, &start), 5);
	snprintf(other, sizeof other, "1 %s %llu %u %d %llu", boot, ns, uid, pid, start + 1);
	assert_true(docker_owner_gone(other)); /* the number, taken again */
	snprintf(other, sizeof other, "1 another-boot %llu %u %d %llu", ns, uid, pid, start);
	assert_true(docker_owner_gone(other));
	snprintf(other, sizeof other, "1 %s %llu %u %d %llu", boot, ns, uid + 1, 999999, start);
	assert_false(docker_owner_gone(other)); /* somebody else's */
	snprintf(other, sizeof other, "1 %s %llu %u %d %llu", boot, ns + 1, uid, 999999, start);
	assert_false(docker_owner_gone(other)); /* of another pid namespace */
	static const char *const bad[] = { "", "1", "2 a 1 1 1 1", "1 a b c d e", "x y z" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(docker_owner_gone(bad[i]));
	pid_t child = fork(); /* one that waits to be reaped is gone */
	if (child == 0)
		_exit(0);
	usleep(50000);
	snprintf(other, sizeof other, "1 %s %llu %u %d %llu", boot, ns, uid, child, start);
	assert_true(docker_owner_gone(other));
	waitpid(child, NULL, 0);
}

static char link_path[PATH_MAX];

static int setup(void **state)
{
	char exe[PATH_MAX], cmd[200];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

	(void)state;
	strcpy(base, "/tmp/brig-test-docker-XXXXXX");
	if (n <= 0 || !mkdtemp(base))
		return -1;
	exe[n] = '\0';
	/* helpers are looked for beside the executable */
	snprintf(link_path, sizeof link_path, "%s/brig-park", dirname(exe));
	if (symlink("../brig-park", link_path) < 0 && errno != EEXIST)
		return -1;
	snprintf(cmd, sizeof cmd, "mkdir -p %s/.git && : > %s/.git/config", base, base);
	return system(cmd);
}

static int teardown(void **state)
{
	char cmd[200];

	(void)state;
	unlink(link_path);
	snprintf(cmd, sizeof cmd, "rm -rf %s", base);
	return system(cmd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_body), cmocka_unit_test(test_allow_list),
		cmocka_unit_test(test_no_secret_in_body_or_key),
		cmocka_unit_test(test_variants),
		cmocka_unit_test(test_key),
		cmocka_unit_test(test_recipe_round_trip),
		cmocka_unit_test(test_profile),
		cmocka_unit_test(test_demux),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_readback),
		cmocka_unit_test(test_owner),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
