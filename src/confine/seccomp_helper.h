/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between brig and its helper executable brig-seccomp, which reads profiles
 * (and so carries the JSON library): the profile's text on standard input, one
 * record and then the instructions on standard output.
 */
#ifndef CONFINE_SECCOMP_HELPER_H
#define CONFINE_SECCOMP_HELPER_H

#include <stdint.h>

#include "brig.h"

#define SECCOMP_HELPER_MAGIC 0x62726731u /* "brg1" */

struct seccomp_helper_reply {
	uint32_t magic;
	uint32_t len;            /* instructions that follow; 0 on failure */
	struct brig_error error; /* code OK on success */
};

#endif
