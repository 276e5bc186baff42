/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_PLAN_INTERNAL_H
#define PLAN_PLAN_INTERNAL_H

#include <stdint.h>

#include "plan/plan.h"

/* A plan being made.  Errors are sticky (out of memory, and what is said). */
struct planner {
	struct plan *p;
	size_t cap_ops, cap_rules;
	/* Places that exist in the plan so far, by hash of their path: an index
	 * into ops plus one, 0 for a free slot.  A power of two in size. */
	uint32_t *places;
	size_t n_places, cap_places;
	bool failed;
	bool too_long; /* a path; failed is set as well */
};

/* Adds an operation; dst is copied.  Returns it, or NULL after a failure. */
struct plan_op *plan_add(struct planner *pl, enum op_kind kind, const char *dst,
			 unsigned flags);
/* Makes the directories above dst that do not exist in the plan yet.  The flags of what
 * is put there: OPF_MKPOINT, or none when dst lies in a host tree, where brig never creates
 * anything, so that the mount point has to exist. */
unsigned plan_parents(struct planner *pl, const char *dst);
void plan_rule(struct planner *pl, enum ll_class class, const char *path,
	       bool is_dir);
void plan_bind(struct planner *pl, const char *src, const char *dst,
	       unsigned flags);
void plan_file(struct planner *pl, const char *dst, char *text, mode_t mode);

/* The parts of the root tree. */
void plan_system(struct planner *pl);
void plan_etc(struct planner *pl);
void plan_dev(struct planner *pl);
void plan_proc(struct planner *pl);

#endif
