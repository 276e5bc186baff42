/* SPDX-License-Identifier: Apache-2.0 */
/* The allow-list that a learning run came to: for a person, and in the result. */
#include <inttypes.h>
#include <string.h>

#include "api/json.h"
#include "base/str.h"

static bool worked(const struct brig_result *r, const char *target)
{
	for (size_t i = 0; i < r->n_learned; i++)
		if (!r->learned[i].why && streq(r->learned[i].target, target))
			return true;
	return false;
}

/* What failed once and worked another time is learned; what was refused is not
 * made good by that. */
static bool not_learned(const struct brig_result *r, const struct learned *l)
{
	return l->why && (l->refused || !worked(r, l->target));
}

static void add_fix(struct buf *b, const struct learned *l)
{
	if (streq(l->why, "address-not-allowed"))
		buf_addf(b, "called by its address, without a name; if that is meant: "
			    "--allow %s", l->target);
	else if (streq(l->why, "private-address") || streq(l->why, "own-address"))
		buf_adds(b, "the name leads to an address that is not public; if that is "
			    "meant, allow the name and the address");
	else
		buf_addf(b, "%s: see docs/egress.md", l->refused ? "refused" : "it did not work");
}

char *learned_text(const struct brig_result *r)
{
	struct buf b = { 0 };
	size_t n = 0, no = 0;

	for (size_t i = 0; i < r->n_learned; i++) {
		n += !r->learned[i].why;
		no += not_learned(r, &r->learned[i]);
	}
	if (n == 0)
		buf_adds(&b, "brig: learned: no connection was made\n");
	else
		buf_adds(&b, "brig: learned: what the command connected to, as options\n ");
	for (size_t i = 0; i < r->n_learned; i++)
		if (!r->learned[i].why)
			buf_addf(&b, " --allow %s", r->learned[i].target);
	if (n)
		buf_adds(&b, "\nand for a policy file\n  network:\n    allow:\n");
	for (size_t i = 0; i < r->n_learned; i++)
		if (!r->learned[i].why)
			buf_addf(&b, "      - \"%s\"\n", r->learned[i].target);
	if (no)
		buf_adds(&b, "brig: not learned:\n");
	for (size_t i = 0; i < r->n_learned; i++) {
		const struct learned *l = &r->learned[i];
		if (!not_learned(r, l))
			continue;
		buf_addf(&b, "  %s  %s (", l->target, l->why);
		add_fix(&b, l);
		buf_adds(&b, ")\n");
	}
	if (r->learn_lost)
		buf_addf(&b, "brig: learned: %" PRIu64 " more are only in the audit log\n",
			 r->learn_lost);
	return buf_take(&b, NULL);
}

void learned_json(struct json *j, const struct brig_result *r)
{
	jw_key(j, "learned");
	jw_array(j);
	for (size_t i = 0; i < r->n_learned; i++)
		if (!r->learned[i].why)
			jw_string(j, r->learned[i].target);
	jw_end_array(j);
	jw_key(j, "not_learned");
	jw_array(j);
	for (size_t i = 0; i < r->n_learned; i++) {
		const struct learned *l = &r->learned[i];
		cleanup_buf struct buf fix = { 0 };
		if (!not_learned(r, l))
			continue;
		add_fix(&fix, l);
		jw_object(j);
		jw_key(j, "target");
		jw_string(j, l->target);
		jw_key(j, "reason");
		jw_string(j, l->why);
		jw_key(j, "fix");
		jw_bytes(j, fix.data ? fix.data : "", fix.len);
		jw_key(j, "count");
		jw_uint(j, l->count);
		jw_end_object(j);
	}
	jw_end_array(j);
	jw_key(j, "learn_lost");
	jw_uint(j, r->learn_lost);
}
