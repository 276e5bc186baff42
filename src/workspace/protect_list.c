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
 */
const char *const protect_defaults[] = {
	".git/hooks",
	".git/config",
	".git/config.worktree",
	/* "commondir" moves the whole configuration of a git directory */
	".git/commondir",
	/* `git status` descends into submodules and reads their configs; the
	 * names of submodules may hold a slash */
	".git/modules/*/hooks",
	".git/modules/*/config",
	".git/modules/*/config.worktree",
	".git/modules/*/commondir",
	".git/modules/*/*/hooks",
	".git/modules/*/*/config",
	".git/modules/*/*/config.worktree",
	".git/modules/*/*/commondir",
	/* linked worktrees are checked out elsewhere on the host, but read these */
	".git/worktrees/*/config.worktree",
	".git/worktrees/*/commondir",
	/* a HEAD beside objects and refs makes the workspace itself a bare
	 * repository, whose ./config git would obey */
	"HEAD",
	/* husky points core.hooksPath here, so these are hooks as well */
	".husky",
	/* shells and login sessions, for a workspace that is a home directory */
	".bashrc",
	".bash_profile",
	".bash_login",
	".bash_logout",
	".bash_aliases",
	".profile",
	".zshrc",
	".zprofile",
	".zshenv",
	".zlogin",
	".zlogout",
	".config/fish",
	".config/git",
	".config/systemd",
	".config/autostart",
	".gitconfig",
	".ssh",
	/* run on entering the directory; .direnv holds scripts that direnv
	 * sources without asking again */
	".envrc",
	".direnv",
	/* editors and agents: tasks, hooks and servers they start on opening */
	".vscode",
	".idea",
	".zed",
	".devcontainer",
	".mcp.json",
	".claude",
	".codex",
	".cursor",
	".gemini",
	".opencode",
	NULL,
};
