/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"

static int bad(struct ywhere *w, const struct ynode *n, const char *what,
	       const char *fix)
{
	w->line = n ? n->line : 0;
	w->column = n ? n->column : 0;
	snprintf(w->what, sizeof w->what, "%s", what);
	snprintf(w->fix, sizeof w->fix, "%s", fix);
	return -EINVAL;
}

/* A text as a quoted YAML scalar: JSON's form is one. */
static void add_quoted(struct buf *b, const char *text)
{
	struct json j;

	jw_init(&j, b);
	jw_string(&j, text);
}

/* KEY: "text" at some depth. */
static void add_text(struct buf *b, const char *indent, const char *key,
		     const char *text)
{
	buf_addf(b, "%s%s: ", indent, key);
	add_quoted(b, text);
	buf_addc(b, '\n');
}

static void head(struct buf *b, const char *from)
{
	buf_addf(b, "# Made from the settings of %s by brig config import.\n"
		    "version: 1\nsandbox:\n", from);
}

/* A text, "" when it is not there; NULL when it is something else. */
static const char *text_of(const struct ynode *n)
{
	if (ynode_is_null(n))
		return "";
	return n->kind == YAML_SCALAR ? n->text : NULL;
}

/* Both spellings that such files have: camelCase and snake_case. */
static const struct ynode *either(const struct ynode *n, const char *camel,
				  const char *snake)
{
	const struct ynode *v = ynode_get(n, camel);

	return v ? v : ynode_get(n, snake);
}

static int add_wrapper(const struct ynode *n, struct buf *b, struct ywhere *w)
{
	buf_adds(b, "  mode: wrapper\n  wrapper: ");
	if (n->kind == YAML_SCALAR) {
		if (!strstr(n->text, "{command}"))
			return bad(w, n, "the wrapper has no {command}",
				   "say where the command goes");
		add_quoted(b, n->text);
	} else if (n->kind == YAML_LIST) {
		buf_addc(b, '[');
		for (size_t i = 0; i < n->n; i++) {
			if (n->item[i]->kind != YAML_SCALAR)
				return bad(w, n->item[i], "a word of the wrapper is no text",
					   "list words only");
			buf_adds(b, i ? ", " : "");
			add_quoted(b, n->item[i]->text);
		}
		buf_addc(b, ']');
	} else {
		return bad(w, n, "the wrapper is neither a text nor a list",
			   "write it as one of them");
	}
	buf_addc(b, '\n');
	return 0;
}

/* tools.exec.sandbox: "" (none there), "bwrap", or a name brig has too. */
static int add_nanobot_mode(const struct ynode *n, struct buf *b, struct ywhere *w)
{
	static const char *const same[] = { "bwrap", "docker", "landlock", "seatbelt" };
	const char *mode = text_of(n);

	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		if (streq(mode, same[i])) {
			buf_addf(b, "  mode: %s\n", mode);
			return 0;
		}
	if (!*mode || streq(mode, "none") || streq(mode, "false")) {
		/* never carried over as "none": that has to be somebody's own words */
		buf_adds(b, "  # There was no sandbox before; now there is one.\n"
			    "  mode: native\n");
		return 0;
	}
	return bad(w, n, "tools.exec.sandbox names a sandbox that brig does not know",
		   "set it to bwrap, or write the configuration by hand");
}

static int from_nanobot(const struct ynode *root, struct buf *b, struct ywhere *w)
{
	const struct ynode *tools = ynode_get(root, "tools");
	const struct ynode *exec = ynode_get(tools, "exec");
	const struct ynode *wrapper = either(exec, "commandWrapper", "command_wrapper");
	const struct ynode *sandbox = ynode_get(exec, "sandbox");
	const struct ynode *restrict_ws = either(tools, "restrictToWorkspace",
						 "restrict_to_workspace");
	const struct ynode *workspace = ynode_path(root, "agents.defaults.workspace");
	const struct ynode *timeout = ynode_get(exec, "timeout");
	const char *mode = text_of(sandbox);
	int r;

	if (!tools)
		return bad(w, root, "there is no 'tools' in it",
			   "give nanobot's config.json");
	if (!restrict_ws)
		restrict_ws = either(exec, "restrictToWorkspace", "restrict_to_workspace");
	int only = ynode_bool(restrict_ws);
	if (only < 0 && !ynode_is_null(restrict_ws))
		return bad(w, restrict_ws, "restrictToWorkspace is neither true nor false",
			   "write one of them");
	if (!mode)
		return bad(w, sandbox, "tools.exec.sandbox is not a text", "write one word");
	head(b, "nanobot");
	bool wraps = !ynode_is_null(wrapper) &&
		     !(wrapper->kind == YAML_SCALAR && !*wrapper->text);
	if (wraps && *mode && !streq(mode, "none"))
		return bad(w, wrapper, "both tools.exec.sandbox and commandWrapper are set",
			   "keep the one that is meant");
	r = wraps ? add_wrapper(wrapper, b, w) : add_nanobot_mode(sandbox, b, w);
	if (r < 0)
		return r;
	const char *dir = text_of(workspace);
	if (dir && *dir) {
		buf_adds(b, "  workspace:\n");
		add_text(b, "    ", "path", dir);
		/* commands were to stay in there: then no caller may point elsewhere */
		if (only == 1)
			add_text(b, "    ", "root", dir);
	} else if (only == 1) {
		buf_adds(b, "  # restrictToWorkspace was true: name the directory that every\n"
			    "  # workspace must lie in as workspace.root.\n");
	}
	const char *seconds = text_of(timeout);
	uint64_t ms;
	if (!seconds || (*seconds && parse_milli(seconds, UINT64_MAX / 2, &ms) < 0))
		return bad(w, timeout, "tools.exec.timeout is not a number",
			   "write it in seconds");
	if (*seconds)
		buf_addf(b, "  limits:\n    timeout: %s\n", seconds);
	if (only == 0)
		buf_adds(b, "  # restrictToWorkspace was false.  With brig only the workspace can\n"
			    "  # be written; list other trees in filesystem.write.\n");
	return 0;
}

static int from_astrbot(const struct ynode *root, struct buf *b, struct ywhere *w)
{
	static const struct {
		const char *word, *yaml;
	} modes[] = {
		{ "none", "  # Computer use was switched off.  It has to stay so in AstrBot: brig\n"
			  "  # only says how a command runs, not whether.\n  mode: native\n" },
		{ "local", "  # Commands ran without a sandbox; now there is one.\n"
			   "  mode: native\n" },
		{ "local_sandboxed", "  mode: native\n" },
		{ "sandbox", "  mode: docker\n  # image: NAME of the image to run in; nothing "
			     "runs without it\n" },
	};
	const struct ynode *n = ynode_path(root, "provider_settings.computer_use_runtime");
	const char *dir = getenv("ASTRBOT_LOCAL_WORKSPACE_ROOT");

	if (!n)
		n = ynode_get(root, "computer_use_runtime");
	if (!n)
		return bad(w, root, "there is no computer_use_runtime in it",
			   "give AstrBot's cmd_config.json");
	const char *mode = text_of(n);
	const char *yaml = NULL;
	for (size_t i = 0; mode && i < ARRAY_LEN(modes); i++)
		if (streq(mode, modes[i].word))
			yaml = modes[i].yaml;
	if (!yaml)
		return bad(w, n, "computer_use_runtime is not one of none, local, "
			   "local_sandboxed, sandbox", "choose one of them");
	head(b, "AstrBot");
	buf_adds(b, yaml);
	if (!dir || !*dir) {
		const struct ynode *set = ynode_get(root, "ASTRBOT_LOCAL_WORKSPACE_ROOT");
		dir = set ? text_of(set) : NULL;
	}
	if (dir && *dir) {
		buf_adds(b, "  workspace:\n");
		add_text(b, "    ", "root", dir);
	}
	return 0;
}

/* The value of a JSON escape (backslash, u, four digits) at p, or 0. */
static unsigned escape_at(const char *p, const char *end)
{
	unsigned v = 0;

	if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
		return 0;
	for (int i = 2; i < 6; i++) {
		char c = p[i];
		unsigned d = c >= '0' && c <= '9' ? (unsigned)(c - '0') :
			     c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 :
			     c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10 : 16;
		if (d == 16)
			return 0;
		v = v << 4 | d;
	}
	return v;
}

size_t import_join_escapes(char *text, size_t len)
{
	char *to = text;
	const char *end = text + len;

	for (const char *p = text; p < end;) {
		unsigned hi = escape_at(p, end);
		unsigned lo = hi >= 0xd800 && hi < 0xdc00 ? escape_at(p + 6, end) : 0;
		if (lo >= 0xdc00 && lo < 0xe000) {
			unsigned c = 0x10000 + ((hi - 0xd800) << 10) + (lo - 0xdc00);
			*to++ = (char)(0xf0 | c >> 18);
			*to++ = (char)(0x80 | (c >> 12 & 0x3f));
			*to++ = (char)(0x80 | (c >> 6 & 0x3f));
			*to++ = (char)(0x80 | (c & 0x3f));
			p += 12;
		} else if (*p == '\\' && p + 1 < end) {
			*to++ = *p++; /* whatever is escaped is not looked at again */
			*to++ = *p++;
		} else {
			*to++ = *p++;
		}
	}
	return (size_t)(to - text);
}

const struct import_from import_table[] = {
	{ "nanobot", "tools.exec.sandbox, tools.exec.commandWrapper, "
		     "tools.restrictToWorkspace", from_nanobot },
	{ "astrbot", "computer_use_runtime, ASTRBOT_LOCAL_WORKSPACE_ROOT", from_astrbot },
	{ NULL, NULL, NULL },
};
