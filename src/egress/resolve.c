/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/resolve.h"

#include <ares.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "base/str.h"

enum {
	CACHED = 256,     /* answers, one per bucket */
	IN_FLIGHT = 512,  /* lookups at once */
	TTL_MAX_S = 60,
	TTL_MIN_S = 1,
	TRY_MS = 2000,
	TRIES = 2,
};

struct cached {
	int64_t until;
	struct answer answer;
	char name[EG_NAME_LEN];
};

struct lookup {
	struct resolver *r;
	struct lookup *next;
	struct asker *askers;
	char name[EG_NAME_LEN];
};

struct wire_source {
	struct grave grave; /* first: freed through it */
	struct source src;
	struct resolver *r;
	struct wire_source *next;
};

struct resolver {
	struct loop *loop;
	ares_channel channel;
	struct wire_source *sources;
	struct lookup *flying;
	unsigned n_flying;
	struct cached cache[CACHED];
};

static unsigned bucket(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 ^ (unsigned char)*name;
	return h % CACHED;
}

static void source_ready(struct source *s, uint32_t events)
{
	struct wire_source *w = (void *)((char *)s - offsetof(struct wire_source, src));
	int fd = s->fd;

	ares_process_fd(w->r->channel, events & ~(uint32_t)EPOLLOUT ? fd : ARES_SOCKET_BAD,
			events & EPOLLOUT ? fd : ARES_SOCKET_BAD);
}

/* c-ares tells which of its sockets it waits for. */
static void socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = arg;
	struct wire_source **p = &r->sources;
	uint32_t events = (readable ? (uint32_t)EPOLLIN : 0) |
			  (writable ? (uint32_t)EPOLLOUT : 0);

	while (*p && (*p)->src.fd != fd)
		p = &(*p)->next;
	struct wire_source *w = *p;
	if (w && events) {
		loop_change(r->loop, &w->src, events);
	} else if (w) {
		*p = w->next;
		loop_take(r->loop, &w->src); /* c-ares closes it */
		loop_bury(r->loop, &w->grave);
	} else if (events) {
		w = calloc(1, sizeof *w);
		if (!w)
			return; /* the lookup runs into its time limit */
		w->r = r;
		w->src = (struct source){ .fd = fd, .ready = source_ready };
		w->next = r->sources;
		r->sources = w;
		loop_add(r->loop, &w->src, events);
	}
}

static int ares_wait(void *arg)
{
	struct resolver *r = arg;
	struct timeval tv, *t;

	if (!r->flying)
		return -1;
	t = ares_timeout(r->channel, NULL, &tv);
	return t ? (int)(t->tv_sec * 1000 + t->tv_usec / 1000 + 1) : -1;
}

static void ares_tick(void *arg)
{
	struct resolver *r = arg;

	if (r->flying)
		ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

/* Takes the addresses of one family out of a result; how many. */
static unsigned pick(const struct ares_addrinfo *ai, int family,
		     struct eaddr out[RESOLVE_ADDRS], int *ttl)
{
	unsigned n = 0;

	for (const struct ares_addrinfo_node *x = ai->nodes; x && n < RESOLVE_ADDRS;
	     x = x->ai_next) {
		struct sockaddr_storage ss = { 0 };
		uint16_t port;
		if (x->ai_family != family || x->ai_addrlen > sizeof ss)
			continue;
		memcpy(&ss, x->ai_addr, x->ai_addrlen);
		/* not addr_from_sock() for IPv6: a mapped address stays one, and
		 * is refused as such */
		if (family == AF_INET) {
			if (!addr_from_sock(&ss, &out[n], &port))
				continue;
		} else {
			out[n] = (struct eaddr){ .family = AF_INET6 };
			memcpy(out[n].b, &((struct sockaddr_in6 *)&ss)->sin6_addr, 16);
		}
		n++;
		if (x->ai_ttl < *ttl)
			*ttl = x->ai_ttl;
	}
	return n;
}

static int read_result(const struct ares_addrinfo *ai, struct answer *reply)
{
	struct eaddr v4[RESOLVE_ADDRS], v6[RESOLVE_ADDRS];
	int ttl = TTL_MAX_S;
	unsigned n4 = pick(ai, AF_INET, v4, &ttl), n6 = pick(ai, AF_INET6, v6, &ttl);

	reply->n = 0;
	for (unsigned i = 0; i < RESOLVE_ADDRS; i++) {
		if (i < n4 && reply->n < RESOLVE_ADDRS)
			reply->addr[reply->n++] = v4[i];
		if (i < n6 && reply->n < RESOLVE_ADDRS)
			reply->addr[reply->n++] = v6[i];
	}
	return ttl < TTL_MIN_S ? TTL_MIN_S : ttl;
}

static void answered(void *arg, int status, int timeouts, struct ares_addrinfo *ai)
{
	struct lookup *f = arg, **p = &f->r->flying;
	struct resolver *r = f->r;
	struct answer reply = { 0 };

	(void)timeouts;
	while (*p != f)
		p = &(*p)->next;
	*p = f->next;
	r->n_flying--;
	if (status == ARES_SUCCESS && ai) {
		int ttl = read_result(ai, &reply);
		struct cached *c = &r->cache[bucket(f->name)];
		c->until = loop_now(r->loop) + (int64_t)ttl * 1000;
		c->answer = reply;
		memcpy(c->name, f->name, sizeof c->name);
	}
	if (ai)
		ares_freeaddrinfo(ai);
	while (f->askers) {
		struct asker *a = f->askers;
		f->askers = a->next;
		a->of = NULL;
		a->answered(a, &reply);
	}
	free(f);
}

void resolver_ask(struct resolver *r, const char *name, struct asker *a)
{
	static const struct answer none;
	const struct ares_addrinfo_hints hints = {
		/* no sorting: it would connect to each address to see its route */
		.ai_flags = ARES_AI_NOSORT,
		.ai_family = AF_UNSPEC,
	};
	struct cached *c = &r->cache[bucket(name)];
	struct lookup *f;

	if (c->until > loop_now(r->loop) && streq(c->name, name)) {
		if (a)
			a->answered(a, &c->answer);
		return;
	}
	for (f = r->flying; f; f = f->next)
		if (streq(f->name, name))
			break;
	if (!f) {
		f = r->n_flying < IN_FLIGHT ? calloc(1, sizeof *f) : NULL;
		if (!f) {
			if (a)
				a->answered(a, &none);
			return;
		}
		f->r = r;
		snprintf(f->name, sizeof f->name, "%s", name);
		f->next = r->flying;
		r->flying = f;
		r->n_flying++;
		if (a) {
			a->of = f;
			a->next = f->askers;
			f->askers = a;
		}
		ares_getaddrinfo(r->channel, f->name, NULL, &hints, answered, f);
		return;
	}
	if (a) {
		a->of = f;
		a->next = f->askers;
		f->askers = a;
	}
}

void resolver_forget(struct asker *a)
{
	if (!a->of)
		return;
	struct asker **p = &a->of->askers;
	while (*p != a)
		p = &(*p)->next;
	*p = a->next;
	a->of = NULL;
}

struct resolver *resolver_new(struct loop *l, const char *dns)
{
	struct resolver *r = calloc(1, sizeof *r);
	char lookups[] = "b"; /* DNS only, no files */
	struct ares_options o = {
		/* the name as it is: no search list, no aliases */
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
		.timeout = TRY_MS,
		.tries = TRIES,
		.lookups = lookups,
		.sock_state_cb = socket_state,
		.sock_state_cb_data = r,
	};

	if (!r)
		return NULL;
	r->loop = l;
	if (ares_library_init(ARES_LIB_INIT_ALL) ||
	    ares_init_options(&r->channel, &o, ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS |
			      ARES_OPT_TRIES | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB)) {
		free(r);
		errno = ENOMEM;
		return NULL;
	}
	if (dns[0] && ares_set_servers_ports_csv(r->channel, dns)) {
		ares_destroy(r->channel);
		free(r);
		errno = EINVAL;
		return NULL;
	}
	loop_clockwork(l, ares_wait, ares_tick, r);
	return r;
}
