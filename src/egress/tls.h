/* SPDX-License-Identifier: Apache-2.0 */
/* The ClientHello of a TLS connection, read without decrypting anything. */
#ifndef EGRESS_TLS_H
#define EGRESS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TLS_HELLO_MAX = 16 * 1024, /* the handshake message */
	TLS_STREAM_MAX = 18 * 1024, /* the records it came in */
};

enum tls_result {
	TLS_MORE,    /* so far it looks right */
	TLS_NOT,     /* no TLS */
	TLS_HELLO,   /* *out is filled */
	TLS_INVALID,
	TLS_TOO_BIG,
};

struct tls_hello {
	size_t used;     /* bytes of the stream */
	bool has_sni;
	bool ech;        /* an encrypted_client_hello extension, real or grease */
	bool early_data;
	size_t sni_len;
	char sni[256];   /* as sent, not ended */
};

/*
 * Reads a ClientHello from the beginning of a stream, across as many records as
 * it was cut into.  It must end where a record ends, and have at most one server
 * name: two readers must not be able to see two names.
 */
enum tls_result tls_read_hello(const uint8_t *data, size_t len, struct tls_hello *out);

/*
 * What a client says after its hello.  A server may ask for a second hello (TLS
 * 1.3, HelloRetryRequest), and one with another name must not pass either.
 */
struct tls_follow {
	uint32_t skip; /* of the record that is passing */
	uint8_t ccs;   /* change_cipher_spec records seen */
	bool early;    /* the first hello offered early data */
};

enum tls_next {
	TLS_NEXT_MORE,  /* *pass bytes may go; the rest is not complete */
	TLS_NEXT_HELLO, /* *pass bytes may go; then stands *hello, hello->used long */
	TLS_NEXT_DONE,  /* no further hello can come: all may go */
	TLS_NEXT_BAD,
};

enum tls_next tls_follow(struct tls_follow *f, const uint8_t *data, size_t len,
			 size_t *pass, struct tls_hello *hello);

#endif
