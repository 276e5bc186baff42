/* SPDX-License-Identifier: Apache-2.0 */
/* The strict reading of a profile's JSON: keys, numbers, strings, actions. */
#include <errno.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "confine/seccomp_profile.h"

int profile_bad(const struct reader *r, const char *fmt, ...)
{
	char what[384];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	if (r->entry == TOP)
		return err_set(r->err, BRIG_E_BAD_SECCOMP_PROFILE, 0, "seccomp",
			       "%s: %s", r->label, what);
	return err_set(r->err, BRIG_E_BAD_SECCOMP_PROFILE, 0, "seccomp",
		       "%s: syscalls[%zu]: %s", r->label, r->entry, what);
}

const char *profile_shown(const char *text, char out[SHOWN_MAX])
{
	size_t i = 0;

	for (; i < SHOWN_MAX - 1 && text[i]; i++)
		out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	out[i] = '\0';
	return out;
}

int profile_check_keys(const struct reader *r, const json_t *obj,
		       const char *where, const char *const *known)
{
	const char *key;
	json_t *value;
	char word[SHOWN_MAX];

	if (!json_is_object(obj))
		return profile_bad(r, "%s is not an object", where);
	json_object_foreach((json_t *)obj, key, value) {
		const char *const *k = known;
		while (*k && strcmp(*k, key) != 0)
			k++;
		if (*k)
			continue;
		int ret = profile_bad(r, "unknown key \"%s\" in %s",
				      profile_shown(key, word), where);
		err_fix(r->err, "Remove it, or check its spelling: an ignored"
				" line of a profile would be a hole.");
		return ret;
	}
	return 0;
}

const json_t *profile_get(const json_t *obj, const char *key)
{
	const json_t *v = json_object_get(obj, key);

	return json_is_null(v) ? NULL : v;
}

int profile_get_number(const struct reader *r, const json_t *obj,
		       const char *key, uint64_t max, uint64_t fallback,
		       uint64_t *out)
{
	const json_t *v = profile_get(obj, key);

	*out = fallback;
	if (!v)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
	    (uint64_t)json_integer_value(v) > max)
		return profile_bad(r,
				   "\"%s\" must be a whole number from 0 to %llu",
				   key, (unsigned long long)max);
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

int profile_check_strings(const struct reader *r, const json_t *v,
			  const char *what)
{
	size_t i;
	const json_t *s;

	if (!v)
		return 0;
	if (!json_is_array(v))
		return profile_bad(r, "\"%s\" is not an array", what);
	json_array_foreach(v, i, s)
		if (!json_is_string(s))
			return profile_bad(r, "\"%s\"[%zu] is not a string",
					   what, i);
	return 0;
}

int profile_read_action(const struct reader *r, const json_t *v,
			const char *what, uint64_t errnum, uint32_t *out)
{
	static const struct {
		const char *name;
		uint32_t action;
		const char *refused;
	} actions[] = {
		{ "SCMP_ACT_ALLOW", SECCOMP_RET_ALLOW, NULL },
		{ "SCMP_ACT_ERRNO", SECCOMP_RET_ERRNO, NULL },
		{ "SCMP_ACT_KILL", SECCOMP_RET_KILL_THREAD, NULL },
		{ "SCMP_ACT_KILL_THREAD", SECCOMP_RET_KILL_THREAD, NULL },
		{ "SCMP_ACT_KILL_PROCESS", SECCOMP_RET_KILL_PROCESS, NULL },
		{ "SCMP_ACT_TRAP", SECCOMP_RET_TRAP, NULL },
		{ "SCMP_ACT_LOG", SECCOMP_RET_LOG, NULL },
		{ "SCMP_ACT_TRACE", 0, "needs a tracer" },
		{ "SCMP_ACT_NOTIFY", 0, "needs a listener of the profile's own" },
	};
	char word[SHOWN_MAX];

	if (!json_is_string(v))
		return profile_bad(r, "\"%s\" is missing or not a string", what);
	const char *name = json_string_value(v);
	for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
		if (strcmp(actions[i].name, name) != 0)
			continue;
		if (actions[i].refused) {
			int ret = profile_bad(r, "\"%s\": %s %s, which brig does"
						 " not offer", what, name,
					      actions[i].refused);
			err_fix(r->err, "Use SCMP_ACT_ERRNO or SCMP_ACT_LOG"
					" instead.");
			return ret;
		}
		*out = actions[i].action;
		if (*out == SECCOMP_RET_ERRNO)
			*out |= (uint32_t)errnum;
		return 0;
	}
	int ret = profile_bad(r, "\"%s\": unknown action \"%s\"", what,
			      profile_shown(name, word));
	err_fix(r->err, "Actions are SCMP_ACT_ALLOW, _ERRNO, _KILL,"
			" _KILL_THREAD, _KILL_PROCESS, _TRAP and _LOG.");
	return ret;
}
