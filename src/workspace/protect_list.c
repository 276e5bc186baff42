/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/protect.h"

/*
 * The measure: content that a tool of the user's runs or obeys when he merely
 * enters the directory, opens it in an editor or agent, or asks git for its
 * status.  Left writable, with the reason:
 *   package.json, Makefile, .pre-commit-config.yaml, .npmrc, .cargo, .env:
 *     agents edit them legitimately; they act when the user builds or runs
 *     the project, which is trust in the agent's work as a whole
 *   .gitattributes, .git/info/attributes: name drivers, but only the
 *     protected config can define what a driver runs
 *   .gitmodules: git refuses commands (update = !…) from it
 *
 * In the order of strcmp(): what lies below one directory stands together, and a scan looks
 * at that once.
 */
const char *const protect_defaults[] = {
	/* shells and login sessions, for a workspace that is a home directory */
	".bash_aliases",
	".bash_login",
	".bash_logout",
	".bash_profile",
	".bashrc",
	/* editors and agents: tasks, hooks and servers they start on opening */
	".claude",
	".codex",
	/* of a home directory */
	".config/autostart",
	".config/fish",
	".config/git",
	".config/systemd",
	/* editors and agents */
	".cursor",
	".devcontainer",
	/* run on entering the directory; .direnv holds scripts that direnv
	 * sources without asking again */
	".direnv",
	".envrc",
	/* an agent */
	".gemini",
	/* "commondir" moves the whole configuration of a git directory */
	".git/commondir",
	".git/config",
	".git/config.worktree",
	".git/hooks",
	/* `git status` descends into submodules and reads their configs; the
	 * names of submodules may hold a slash */
	".git/modules/*/*/commondir",
	".git/modules/*/*/config",
	".git/modules/*/*/config.worktree",
	".git/modules/*/*/hooks",
	".git/modules/*/commondir",
	".git/modules/*/config",
	".git/modules/*/config.worktree",
	".git/modules/*/hooks",
	/* linked worktrees are checked out elsewhere on the host, but read these */
	".git/worktrees/*/commondir",
	".git/worktrees/*/config.worktree",
	/* of a home directory */
	".gitconfig",
	/* husky points core.hooksPath here, so these are hooks as well */
	".husky",
	/* editors and agents */
	".idea",
	".mcp.json",
	".opencode",
	/* of a home directory */
	".profile",
	".ssh",
	/* editors */
	".vscode",
	".zed",
	/* a shell */
	".zlogin",
	".zlogout",
	".zprofile",
	".zshenv",
	".zshrc",
	/* a HEAD beside objects and refs makes the workspace itself a bare
	 * repository, whose ./config git would obey */
	"HEAD",
	NULL,
};
