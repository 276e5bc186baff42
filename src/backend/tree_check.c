/* SPDX-License-Identifier: Apache-2.0 */
/* What a backend without mounts of brig's making refuses, and what it executes. */
#include <errno.h>

#include "backend/tree.h"
#include "base/err.h"
#include "base/idmap.h"
#include "base/str.h"

/* Is id 0 here somebody's ordinary id outside?  Asked again, as the command keeps it
 * then: when it cannot be told, no. */
static bool is_nested(void)
{
	return userns_here() == USERNS_OTHER;
}

int tree_check_ids(const struct spec *s, const char *backend, struct brig_error *err)
{
	if (s->nested && !is_nested()) {
		err_set(err, BRIG_E_SETUP_FAILED, 0, "ids",
			"it cannot be told whether root here is root of the machine");
		err_fix(err, "make /proc/self/uid_map readable, or start brig as an ordinary "
			     "user");
		return -EPERM;
	}
	if (!s->idmapped && !(s->as_root && s->host_uid == 0))
		return 0;
	/* Without an id-mapped mount, whoever may write what belongs to root has
	 * to be root, and that is what a sandbox must not be. */
	err_set(err, BRIG_E_BAD_WORKSPACE, 0, "ids",
		"the workspace belongs to root, and the %s backend cannot show it to "
		"anybody else", backend);
	err_fix(err, "give it to an ordinary user (chown -R USER DIR), or use "
		     "--backend native");
	return -EPERM;
}

static int cannot(struct brig_error *err, const char *backend, const char *what,
		  const char *fix)
{
	err_set(err, BRIG_E_UNSUPPORTED, 0, "backend", "the %s backend cannot %s",
		backend, what);
	err_fix(err, "%s, or use --backend native", fix);
	return -EOPNOTSUPP;
}

int tree_check_places(const struct spec *s, const char *backend,
		      struct brig_error *err)
{
	if (!streq(s->workspace.src, s->workspace.dst))
		return cannot(err, backend, "show the workspace at another place",
			      "leave --at out");
	for (size_t i = 0; i < s->n_binds; i++)
		/* what a preset found may have two names; one of them will do */
		if (!streq(s->binds[i].src, s->binds[i].dst) && !s->binds[i].tool)
			return cannot(err, backend,
				      "show a file or tree under another name",
				      "name it by its real path, without :DST");
	return 0;
}

int tree_check_open(const struct spec *s, const char *backend, struct brig_error *err)
{
	int r = tree_check_places(s, backend, err);

	if (r < 0)
		return r;
	if (s->masks && s->masks[0])
		return cannot(err, backend, "hide a path (--mask)", "leave --mask out");
	if (!s->workspace.writable)
		return cannot(err, backend, "keep the workspace read-only (access: ro)",
			      "leave it out");
	if (s->seccomp)
		return cannot(err, backend, "apply a system-call profile (--seccomp)",
			      "leave --seccomp out");
	for (size_t i = 0; i < s->n_binds; i++)
		if (!s->binds[i].writable && !s->binds[i].tool)
			return cannot(err, backend, "keep a tree read-only (--ro)",
				      "leave --ro out");
	if (s->net == NET_ALLOW)
		return cannot(err, backend, "keep to a network allow-list",
			      "leave --allow out");
	return 0;
}
