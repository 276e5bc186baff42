/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ID_H
#define BASE_ID_H

/* A ULID (48 bits of milliseconds, 80 random bits) in Crockford base 32:
 * sorts by time, never collides, safe in file names.  26 characters + NUL.
 * 0, or -errno when the kernel gives no randomness. */
int id_make(char out[27]);

#endif
