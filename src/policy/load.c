/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "policy/merge.h"

static void scratch_clear(struct brig_spec *s)
{
	for (unsigned i = 0; i < OPT__COUNT; i++)
		request_unset(s, (enum opt)i);
	strv_free(s->texts);
	*s = (struct brig_spec){ 0 };
}

/* One section of one file on top of what is in force. */
static int apply_section(struct config *c, const struct config_file *f,
			 const struct ynode *n, const char *path, enum layer_rank rank,
			 const char *layer, struct brig_spec *out,
			 struct brig_error *err)
{
	struct brig_spec part = { 0 };
	int r = section_read(c, f, n, path, rank, layer, &part);

	if (r == 0)
		r = layer_apply(out, &part, err);
	else if (err && err->code == BRIG_E_OK)
		*err = c->first;
	scratch_clear(&part);
	return r;
}

static int apply_lock(struct config *c, const struct config_file *f,
		      const char *layer, struct brig_spec *out, struct brig_error *err)
{
	const struct ynode *n = ynode_get(ydoc_root(f->doc), "lock");
	struct brig_spec part = { 0 };
	const struct origin at = { .rank = f->rank, .layer = layer };

	if (!n)
		return 0;
	int r = section_lock(c, f, n, "lock", &at, &part);
	if (r == 0)
		r = layer_apply(out, &part, err);
	scratch_clear(&part);
	return r;
}

static int apply_global(struct config *c, struct brig_spec *out,
			struct brig_error *err)
{
	int r = 0;

	for (size_t i = 0; i < c->n && r == 0; i++) {
		const struct config_file *f = &c->file[i];
		if (f->rank == RANK_TENANT)
			continue;
		r = apply_section(c, f, ynode_get(ydoc_root(f->doc), "sandbox"), "sandbox",
				  f->rank, f->layer, out, err);
		if (r == 0)
			r = apply_lock(c, f, f->layer, out, err);
	}
	return r;
}

static int apply_builtin_profile(struct config *c, const char *name,
				 const char *layer, struct brig_spec *out,
				 struct brig_error *err)
{
	const char *text = profile_builtin(name);
	struct ywhere where;
	struct config_file f = { .path = (char *)"built-in", .dir = (char *)"/" };

	if (!text || !*text)
		return 0;
	int r = ydoc_parse(text, strlen(text), &f.doc, &where);
	if (r < 0)
		return err_set(err, BRIG_E_INTERNAL, -r, "config", "profile %s", name);
	r = apply_section(c, &f, ydoc_root(f.doc), layer, RANK_PROFILE, layer, out, err);
	ydoc_free(f.doc);
	return r;
}

static int no_profile(const struct config *c, const char *name,
		      const struct config_file *from, const struct ynode *at,
		      struct brig_error *err)
{
	char list[300] = "";
	size_t used = 0;

	for (unsigned i = 0; profile_nth(i, NULL); i++)
		used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
					 i ? ", " : "", profile_nth(i, NULL));
	for (size_t i = 0; i < c->n; i++) {
		const struct ynode *p = ynode_get(ydoc_root(c->file[i].doc), "profiles");
		for (size_t k = 0; p && p->kind == YAML_MAP && k < p->n &&
				   used < sizeof list; k++)
			used += (size_t)snprintf(list + used, sizeof list - used, ", %s",
						 p->item[2 * k]->text);
	}
	if (at)
		err_set(err, BRIG_E_BAD_CONFIG, 0, "config",
			"%.200s:%u:%u: profile: there is no profile '%.60s'", from->path,
			at->line, at->column, name);
	else
		err_set(err, BRIG_E_BAD_CONFIG, 0, "config",
			"there is no profile '%.60s'", name);
	err_fix(err, "there are: %s", list);
	return -ENOENT;
}

static int apply_profile(struct config *c, const struct brig_spec *rq,
			 struct brig_spec *out, struct brig_error *err)
{
	const struct config_file *from = NULL;
	const struct ynode *chosen = config_top(c, "profile", &from);
	const char *name = request_text(rq, OPT_PROFILE);
	char layer[90], path[100];

	if (name)
		chosen = NULL;
	else if (chosen)
		name = chosen->text;
	else
		return 0;
	bool found = profile_builtin(name) != NULL;
	snprintf(layer, sizeof layer, "profile %.64s", name);
	snprintf(path, sizeof path, "profiles.%.64s.sandbox", name);
	int r = apply_builtin_profile(c, name, layer, out, err);
	for (size_t i = 0; i < c->n && r == 0; i++) {
		const struct config_file *f = &c->file[i];
		const struct ynode *p = ynode_get(ydoc_root(f->doc), "profiles");
		p = f->rank == RANK_TENANT ? NULL : ynode_get(p, name);
		if (!p)
			continue;
		found = true;
		r = apply_section(c, f, ynode_get(p, "sandbox"), path, RANK_PROFILE, layer,
				  out, err);
	}
	return r == 0 && !found ? no_profile(c, name, from, chosen, err) : r;
}

static int apply_tenant(struct config *c, const char *layer, struct brig_spec *out,
			struct brig_error *err)
{
	int r = 0;

	for (size_t i = 0; i < c->n && r == 0; i++) {
		const struct config_file *f = &c->file[i];
		if (f->rank != RANK_TENANT)
			continue;
		r = apply_section(c, f, ynode_get(ydoc_root(f->doc), "sandbox"), "sandbox",
				  RANK_TENANT, layer, out, err);
		if (r == 0)
			r = apply_lock(c, f, layer, out, err);
	}
	return r;
}

/* What each file says about the tool; "*" is for tools that no file names. */
static int apply_tool(struct config *c, const char *name, struct brig_spec *out,
		      struct brig_error *err)
{
	char layer[90], path[100];
	bool named = false;
	int r = 0;

	for (size_t i = 0; i < c->n; i++)
		named = named || ynode_get(ynode_get(ydoc_root(c->file[i].doc), "tools"),
					   name);
	snprintf(layer, sizeof layer, "tool %.64s", name);
	snprintf(path, sizeof path, "tools.%.64s.sandbox", named ? name : "*");
	for (size_t i = 0; i < c->n && r == 0; i++) {
		const struct config_file *f = &c->file[i];
		const struct ynode *t = ynode_get(ydoc_root(f->doc), "tools");
		t = ynode_get(t, named ? name : "*");
		if (t)
			r = apply_section(c, f, ynode_get(t, "sandbox"), path, RANK_TOOL,
					  layer, out, err);
	}
	return r;
}

/* What a caller asks for must make sense by itself, too. */
static int check_request(const struct brig_spec *rq, struct brig_error *err)
{
	static const enum opt names[] = { OPT_PROFILE, OPT_TENANT, OPT_TOOL };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *name = request_text(rq, names[i]);
		if (!name || config_name_ok(name))
			continue;
		err_set(err, BRIG_E_BAD_VALUE, 0, "options", "--%s: '%.60s' is not a name",
			opt_table[names[i]].name, name);
		err_fix(err, "use letters, digits, '.', '_' and '-'");
		return -EINVAL;
	}
	const char *net = request_has(rq, OPT_NET) ? request_text(rq, OPT_NET) : "allow";
	if (rq->o[OPT_ALLOW].v && !streq(net, "allow")) {
		err_set(err, BRIG_E_BAD_OPTION, 0, "options",
			"--net %s together with --allow", net);
		err_fix(err, "leave one of them out");
		return -EINVAL;
	}
	if (request_flag(rq, OPT_LEARN) && !streq(net, "allow")) {
		err_set(err, BRIG_E_BAD_OPTION, 0, "options",
			"--net %s together with --learn", net);
		err_fix(err, "leave one of them out");
		return -EINVAL;
	}
	return 0;
}

int policy_layers(struct config *c, const struct brig_spec *rq,
		  struct brig_spec *out, struct brig_error *err)
{
	const char *tenant = request_text(rq, OPT_TENANT);
	const char *tool = request_text(rq, OPT_TOOL);
	char layer[90] = "";

	if (tenant)
		snprintf(layer, sizeof layer, "tenant %.64s", tenant);
	c->steps = 0; /* a walk of its own: `config check` makes one per tool */
	int r = apply_global(c, out, err);
	if (r == 0)
		r = apply_profile(c, rq, out, err);
	if (r == 0)
		r = apply_tenant(c, layer, out, err);
	if (r == 0 && tool)
		r = apply_tool(c, tool, out, err);
	return r == 0 ? layer_apply(out, rq, err) : r;
}

/* The overlay of a tenant: DIR/NAME.yaml.  A tenant that does not exist gets
 * nothing, certainly not everybody's policy. */
static int read_tenant(struct config *c, const char *name, struct brig_error *err)
{
	const struct config_file *from = NULL;
	const struct ynode *dir = config_top(c, "tenants_dir", &from);

	if (!dir) {
		err_set(err, BRIG_E_BAD_CONFIG, 0, "config",
			"--tenant %.64s: no configuration names a tenants_dir", name);
		err_fix(err, "add tenants_dir: DIR to the configuration");
		return -EINVAL;
	}
	cleanup_free char *base = config_path(c, from, dir->text);
	cleanup_free char *path = base ? str_fmt("%s/%s.yaml", base, name) : NULL;
	cleanup_free char *layer = str_fmt("tenant %s", name);
	if (!path || !layer)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "config", "tenant");
	return config_read(c, path, RANK_TENANT, "tenant", true, err);
}

int policy_load(const struct brig_spec *rq, struct brig_spec **out,
		struct brig_error *err)
{
	struct config c;
	struct brig_spec *eff = brig_spec_new();

	if (!eff)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "config", "a request");
	config_init(&c);
	int r = check_request(rq, err);
	if (r == 0)
		r = config_read_global(&c, request_text(rq, OPT_CONFIG), err);
	if (r == 0 && request_text(rq, OPT_TENANT))
		r = read_tenant(&c, request_text(rq, OPT_TENANT), err);
	if (r == 0)
		r = policy_layers(&c, rq, eff, err);
	if (r == 0 && strv_append(&eff->argv, (const char *const *)rq->argv) < 0)
		r = err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "config", "the command");
	config_free(&c);
	if (r < 0) {
		brig_spec_free(eff);
		return r;
	}
	eff->loaded = true;
	*out = eff;
	return 0;
}
