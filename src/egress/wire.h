/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What brig and its egress process say to each other: records of one fixed size
 * over one SOCK_SEQPACKET socket, which the egress process finds as descriptor 3.
 *
 *   brig → egress   EG_CONFIG, EG_ALLOW …, EG_DIRECT …, EG_SOCKET …, EG_AUDIT?,
 *                   EG_START; then EG_WHO for each EG_OPEN
 *   egress → brig   EG_READY, then EG_OPEN and EG_EVENT as they happen; or EG_FATAL
 *
 * EG_CONFIG comes first and once.  Names have IPv6 addresses if at least one socket
 * of EG_PORT or EG_REDIRECT is of IPv6.  brig takes no descriptor
 * from egress.  A descriptor (SCM_RIGHTS) comes with EG_SOCKET
 * and EG_AUDIT, exactly one, and with nothing else.  Unused bytes are zero.  Each
 * text ends with NUL inside its array.  Either side treats anything else as
 * nonsense: egress says EG_FATAL and exits, brig kills it.  When the socket is
 * closed, egress exits at once.
 */
#ifndef EGRESS_WIRE_H
#define EGRESS_WIRE_H

#include <stdint.h>

enum {
	EG_FD = 3,
	EG_VERSION = 2,
	EG_ID_LEN = 64,
	EG_NAME_LEN = 256,  /* a host name of 253 characters and NUL, rounded up */
	EG_TEXT_LEN = 400,  /* an allow-list entry, a fatal message */
	EG_AUTH_LEN = 128,  /* user:password of the upstream proxy */
	EG_DNS_LEN = 64,    /* ADDRESS:PORT or [ADDRESS]:PORT */
	EG_ALLOW_MAX = 1024,
	EG_DIRECT_MAX = 128,
	EG_SOCKET_MAX = 256,
	EG_COMMAND_LEN = 256,
};

enum eg_type {
	EG_CONFIG = 1,
	EG_ALLOW,
	EG_SOCKET,
	EG_AUDIT,
	EG_START,
	EG_READY,
	EG_OPEN,   /* a connection was accepted and its name is known (EG_TELL_OPEN);
		      comes before its EG_EVENT, also when it is refused */
	EG_EVENT,  /* a connection ended, or something was refused */
	EG_FATAL,
	EG_DIRECT, /* an item of the operator's NO_PROXY */
	EG_WHO,    /* the answer to EG_OPEN: which process it is */
	EG_TYPE_COUNT
};

/* What a socket of EG_SOCKET is for.  All were made in the sandbox's network
 * namespace; stream sockets are listening. */
enum eg_role {
	EG_DNS_UDP = 1,
	EG_DNS_TCP,
	EG_PORT,     /* a listener of one port: getsockname() tells the address */
	EG_REDIRECT, /* nftables redirects here: SO_ORIGINAL_DST tells it */
	EG_CONNECT,  /* HTTP proxy */
	EG_SOCKS,    /* SOCKS5 proxy */
	EG_ROLE_COUNT
};

/* How somebody came in. */
#define EG_VIAS(X)           \
	X(EG_VIA_DNS, "dns") \
	X(EG_VIA_DIRECT, "direct") \
	X(EG_VIA_CONNECT, "connect") \
	X(EG_VIA_SOCKS, "socks")

#define EG_VERDICTS(X)           \
	X(EG_ALLOWED, "allowed") \
	X(EG_DENIED, "denied")   \
	X(EG_FAILED, "failed")

/* Why.  The names are part of the audit log: add at the end of a group, never
 * rename.  The verdict of a reason is fixed. */
#define EG_REASONS(X)                                                       \
	/* allowed: what the first bytes were */                            \
	X(EG_R_TLS, EG_ALLOWED, "tls")                                      \
	X(EG_R_HTTP, EG_ALLOWED, "http")                                    \
	X(EG_R_OPAQUE, EG_ALLOWED, "opaque")                                \
	X(EG_R_SILENT, EG_ALLOWED, "silent")                                \
	/* denied */                                                        \
	X(EG_R_NAME, EG_DENIED, "name-not-allowed")                         \
	X(EG_R_BAD_NAME, EG_DENIED, "bad-name")                             \
	X(EG_R_PORT, EG_DENIED, "port-not-allowed")                         \
	X(EG_R_ADDRESS, EG_DENIED, "address-not-allowed")                   \
	X(EG_R_PRIVATE, EG_DENIED, "private-address")                       \
	X(EG_R_OWN, EG_DENIED, "own-address")                               \
	X(EG_R_SNI, EG_DENIED, "sni-mismatch")                              \
	X(EG_R_NO_SNI, EG_DENIED, "sni-missing")                            \
	X(EG_R_HELLO, EG_DENIED, "hello-invalid")                           \
	X(EG_R_BIG_HELLO, EG_DENIED, "hello-too-big")                       \
	X(EG_R_HOST, EG_DENIED, "host-mismatch")                            \
	X(EG_R_NO_HOST, EG_DENIED, "host-missing")                          \
	X(EG_R_BAD_HTTP, EG_DENIED, "http-invalid")                         \
	X(EG_R_BIG_HTTP, EG_DENIED, "http-too-big")                         \
	X(EG_R_HTTP2, EG_DENIED, "http2-cleartext")                         \
	X(EG_R_NESTED, EG_DENIED, "connect-inside")                         \
	X(EG_R_NOT_WEB, EG_DENIED, "not-tls-or-http")                       \
	X(EG_R_HEAD_TIME, EG_DENIED, "head-timeout")                        \
	X(EG_R_PROXY_USE, EG_DENIED, "proxy-command")                       \
	X(EG_R_PROXY_BAD, EG_DENIED, "proxy-invalid")                       \
	X(EG_R_LIMIT, EG_DENIED, "connection-limit")                        \
	X(EG_R_MANY, EG_DENIED, "more-refused-names")                       \
	X(EG_R_PROXY_AUTH, EG_DENIED, "proxy-password")                     \
	/* failed: allowed, but it was never made; or, as "ended", how one  \
	 * that was made came to its end */                                 \
	X(EG_R_RESOLVE, EG_FAILED, "resolve-failed")                        \
	X(EG_R_CONNECT, EG_FAILED, "connect-failed")                        \
	X(EG_R_TIME, EG_FAILED, "connect-timeout")                          \
	X(EG_R_UPSTREAM_PROXY, EG_FAILED, "upstream-proxy")                 \
	X(EG_R_IDLE, EG_FAILED, "idle-timeout")                             \
	X(EG_R_RESET, EG_FAILED, "reset")                                   \
	X(EG_R_MEMORY, EG_FAILED, "no-memory")

#define EG_TWO(e, text) e,
#define EG_THREE(e, verdict, text) e,
enum eg_via { EG_VIA_NONE, EG_VIAS(EG_TWO) EG_VIA_COUNT };
enum eg_verdict { EG_UNDECIDED, EG_VERDICTS(EG_TWO) EG_VERDICT_COUNT };
enum eg_reason { EG_R_NONE, EG_REASONS(EG_THREE) EG_REASON_COUNT };
#undef EG_TWO
#undef EG_THREE

enum {
	EG_PRIVATE_OK = 1u << 0, /* names may lead to RFC 1918, ULA and CGNAT addresses */
	EG_TELL_OPEN = 1u << 1,  /* send EG_OPEN */
	EG_LEARN = 1u << 2,      /* every name with a dot in it is on the list, with every
				    port; addresses are not */
	EG_LOOPBACK = 1u << 3,   /* names have addresses of 127.18.0.0/15 */
	EG_FLAGS = EG_PRIVATE_OK | EG_TELL_OPEN | EG_LEARN | EG_LOOPBACK,
};

/* A number of 0 in a limit means the default. */
struct eg_config {
	uint32_t version;
	uint32_t flags;
	uint32_t max_conns;     /* at once; 256, at most 4096 */
	uint32_t conns_per_s;   /* new ones; 200, at most 100000 */
	uint32_t connect_ms;    /* resolving and connecting; 10000, at most 120000 */
	uint32_t idle_ms;       /* 600000, at most 86400000 */
	uint32_t head_ms;       /* 10000, at most 60000 */
	uint16_t proxy_port;    /* 0: no upstream proxy */
	uint16_t pad;
	char id[EG_ID_LEN];     /* the sandbox, for the audit log: printable ASCII */
	char proxy_host[EG_NAME_LEN];
	char proxy_auth[EG_AUTH_LEN]; /* "user:password" or "" */
	char dns[EG_DNS_LEN];   /* "": the host's resolv.conf */
	char client_auth[EG_AUTH_LEN]; /* "user:password" that both proxies ask of their
					  clients; "": they ask for nothing */
};

struct eg_allow {
	char entry[EG_TEXT_LEN]; /* as egress/allow.h reads it; no group */
};

struct eg_direct {
	char item[EG_TEXT_LEN]; /* as egress/direct.h reads it */
};

struct eg_socket {
	uint32_t role;
	uint16_t port; /* EG_PORT: the port it listens on; else 0 */
	uint16_t pad;
};

/* A finished (or, in EG_OPEN, a begun) connection, or refused names. */
struct eg_event {
	uint64_t serial;       /* of the connection; 0 for names */
	uint64_t time_ms;      /* when it began, since 1970 */
	uint64_t bytes_up;     /* sandbox → outside */
	uint64_t bytes_down;
	uint32_t ms;           /* it lasted */
	uint32_t count;        /* equal events that this one stands for, from 1 */
	uint32_t lost;         /* events and audit lines dropped since the last */
	int32_t errnum;        /* of a failed connect, or 0 */
	uint8_t verdict, reason, via;
	uint8_t client_family; /* AF_INET, AF_INET6 or 0 */
	uint8_t client_addr[16];
	uint16_t client_port;  /* in the sandbox: who was it */
	uint16_t port;         /* 0 for names */
	uint8_t called_addr[16]; /* what the client's socket is connected to */
	uint16_t called_port;
	uint8_t ech;           /* the ClientHello carries an encrypted one (or grease) */
	uint8_t ended;         /* a reason: how a connection that was made ended, if not
				  by both sides closing it */
	uint8_t pad[4];
	char name[EG_NAME_LEN]; /* or the address that was asked for; odd bytes as '?' */
	char sni[EG_NAME_LEN];  /* or Host; as sent, odd bytes as '?' */
};

/* Who opened a connection.  The texts are printable ASCII. */
struct eg_who {
	uint64_t serial;
	uint32_t pid;     /* inside the sandbox; 0: not known */
	uint32_t holders; /* processes that hold the socket; pid is set if it is one */
	uint32_t unseen;  /* processes that hide their descriptors */
	uint32_t pad;
	char comm[16];
	char command[EG_COMMAND_LEN]; /* its arguments, cut if they are long */
};

struct eg_fatal {
	int32_t errnum;
	char what[EG_TEXT_LEN];
};

struct eg_msg {
	uint32_t type;
	uint32_t size; /* sizeof(struct eg_msg): both sides are of one build */
	union {
		struct eg_config config;
		struct eg_allow allow;
		struct eg_direct direct;
		struct eg_socket socket;
		struct eg_event event;
		struct eg_who who;
		struct eg_fatal fatal;
	};
};

/* The words of the enums above, for people and the audit log; "?" if unknown. */
const char *eg_reason_text(unsigned reason);
const char *eg_verdict_text(unsigned verdict);
const char *eg_via_text(unsigned via);
enum eg_verdict eg_reason_verdict(unsigned reason);

#endif
