# SPDX-License-Identifier: Apache-2.0
"""Protected paths of the workspace, and real git inside."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import BRIG, PROBE, REPO, need

GIT_ENV = ["--env", "GIT_AUTHOR_NAME=a", "--env", "GIT_AUTHOR_EMAIL=a@example.org", "--env", "GIT_COMMITTER_NAME=a",
           "--env", "GIT_COMMITTER_EMAIL=a@example.org"]


@pytest.fixture
def repo(who):
    need("git")
    who.host("git", "init", "-q", "-b", "main", ".")
    who.host("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
    return who


def denied_paths(j):
    for d in j["denied"]:
        assert list(d) == ["kind", "target", "rule", "fix", "count"]
        assert d["kind"] == "path" and d["rule"] and d["fix"] and d["count"] >= 1
    return sorted(d["target"] for d in j["denied"])


# -- what exists is read-only -------------------------------------------------

def test_existing_git_config_and_hooks_are_read_only(repo):
    before = (repo.ws / ".git/config").read_text()
    r = repo.sh("""
    echo '[core] fsmonitor = evil' >> .git/config
    echo evil > .git/hooks/pre-commit
    git config core.pager evil
    rm -f .git/config; rm -rf .git/hooks
    chmod 777 .git/config
    cp .git/config /tmp/c && mv /tmp/c .git/config
    mkdir .git/hooks/x
    echo done""")
    assert r.json["stdout"] == "done\n"
    assert (repo.ws / ".git/config").read_text() == before
    assert not (repo.ws / ".git/hooks/pre-commit").exists()
    assert os.path.isdir(repo.ws / ".git/hooks")


def test_git_directory_cannot_be_renamed_away(repo):
    r = repo.sh("mv .git .gone && echo moved; mkdir -p e/.git; mv e/.git . ; rm -rf .git; ls -A; true")
    assert "moved" not in r.json["stdout"] and ".git" in r.json["stdout"].split()
    assert (repo.ws / ".git/config").exists() and (repo.ws / ".git/hooks").is_dir()
    assert not (repo.ws / ".gone").exists()


@pytest.mark.parametrize("path", [".bashrc", ".profile", ".zshrc", ".envrc", ".mcp.json", ".gitconfig",
                                  ".vscode/tasks.json", ".idea/workspace.xml", ".claude/settings.json",
                                  ".husky/pre-commit", ".ssh/authorized_keys", ".config/fish/config.fish"])
def test_existing_files_are_read_only(who, path):
    f = who.write(who.ws / path, "mine\n")
    r = who.sh("echo evil > '%s'; rm -rf '%s'; mv '%s' x; cat '%s'" % (path, path.split("/")[0], path, path))
    assert r.json["stdout"] == "mine\n"
    assert f.read_text() == "mine\n"


def test_hard_link_to_a_protected_file(who):
    f = who.write(who.ws / ".envrc", "mine\n")
    r = who.sh("ln .envrc other; echo evil >> other; cat .envrc")
    assert r.json["stdout"] == "mine\n"
    assert f.read_text() == "mine\n"


# -- what does not exist does not stay ----------------------------------------

@pytest.mark.parametrize("path", [".envrc", ".bashrc", ".mcp.json", ".gitconfig", ".zshenv"])
def test_absent_file_is_moved_aside(who, path):
    r = who.sh("echo evil > %s; cat %s" % (path, path))
    assert r.code == 0
    assert denied_paths(r.json) == [path]
    assert not (who.ws / path).exists()
    left = os.listdir(who.ws)
    assert left == ["%s.brig-denied-%s" % (path, r.json["id"])], left
    assert left[0] in r.json["denied"][0]["fix"]
    assert (who.ws / left[0]).read_text() == "evil\n"


@pytest.mark.parametrize("path", [".vscode", ".claude", ".husky", ".direnv", ".ssh"])
def test_absent_directory_is_moved_aside(who, path):
    r = who.sh("mkdir %s; echo evil > %s/tasks.json" % (path, path))
    assert denied_paths(r.json) == [path]
    assert not (who.ws / path).exists() and len(os.listdir(who.ws)) == 1


def names_in_docs():
    """Those of docs/protected-paths.md that stand for themselves, and the relatives; git's are below."""
    text = (REPO / "docs/protected-paths.md").read_text()
    text = text[text.index("## What is on the list"):text.index("Not on it:")]
    relatives = [".bash_" + x for x in ("aliases", "login", "logout", "profile")]
    relatives += [".z" + x for x in ("login", "logout", "profile", "shenv")]
    return relatives + [x for x in re.findall(r"`([^`]+)`", text) if x.startswith(".") and not x.startswith(".git/")]


def test_every_name_of_the_list(who):
    names = names_in_docs()
    assert len(names) >= 30 and {".envrc", ".codex", ".zshrc", ".idea", ".config/systemd"} <= set(names), names
    r = who.sh("for n in %s; do mkdir -p $(dirname $n) && echo evil > $n; done" % " ".join(names))
    assert r.code == 0 and denied_paths(r.json) == sorted(names)
    assert not [n for n in names if os.path.lexists(who.ws / n)]
    for n in names:
        who.write(who.ws / n, "mine\n")
    r = who.sh("for n in %s; do echo evil > $n; rm -f $n; mv $n away; done 2>/dev/null; true" % " ".join(names))
    assert r.json["denied"] == [] and {(who.ws / n).read_text() for n in names} == {"mine\n"}


def test_last_act_of_a_process_that_is_left_behind(who):
    """The workspace is looked at when nobody can write there any more, and not before."""
    for i in range(30):
        r = who.sh("for n in 1 2 3 4; do (while :; do echo evil > .envrc; mkdir -p .vscode; done) & done; "
                   "sleep 0.00%d; exit 0" % (i % 10))
        assert r.code == 0, r
        assert not (who.ws / ".envrc").exists() and not (who.ws / ".vscode").exists(), (i, r.json["denied"])
        for name in os.listdir(who.ws):
            subprocess.run(["rm", "-rf", str(who.ws / name)], check=True)


@pytest.mark.parametrize("backend", ["native", "landlock", "bwrap"])
def test_a_write_after_the_last_call(who, backend):
    """The kernel writes for a process that is being taken apart, and what it writes counts."""
    if who.is_root and backend != "native":
        pytest.skip("these backends refuse what belongs to root")
    tool = os.path.join(os.path.dirname(PROBE), "latewrite")
    for _ in range(4):
        shutil.copy(tool, who.ws / "latewrite")
        os.chown(who.ws / "latewrite", who.uid, who.gid)
        r = who.brig("run", "--json", "--backend", backend, "--workspace", who.ws, "--", "./latewrite", timeout=60)
        assert r.code == 0, r
        assert ".git/config" in denied_paths(r.json), r.json["denied"]
        assert not (who.ws / ".git/config").exists()
        subprocess.run(["git", "-c", "safe.directory=*", "-C", str(who.ws), "status"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        assert not (who.ws / "pwned").exists()
        for name in os.listdir(who.ws):
            subprocess.run(["rm", "-rf", str(who.ws / name)], check=True)


def test_no_placeholder_is_left(who):
    r = who.sh("ls -A; echo x > plain")
    assert r.json["stdout"] == "" and r.json["denied"] == []
    assert os.listdir(who.ws) == ["plain"]


@pytest.mark.parametrize("how", ["ln -s /etc/passwd .envrc", "mkfifo .envrc", "mkdir .envrc",
                                 "echo x > t; ln t .envrc", "echo x > t; mv t .envrc",
                                 "ln -s nowhere .envrc"])
def test_absent_path_by_any_means(who, how):
    r = who.sh(how)
    assert r.code == 0 and denied_paths(r.json) == [".envrc"]
    assert not os.path.lexists(who.ws / ".envrc")


def test_created_and_removed_again_is_no_matter(who):
    r = who.sh("echo x > .envrc; rm .envrc")
    assert r.json["denied"] == [] and os.listdir(who.ws) == []


def test_made_at_timeout_is_moved_too(who):
    r = who.sh("echo evil > .envrc; sleep 100", ["--timeout", "0.3"])
    assert r.code == 124 and denied_paths(r.json) == [".envrc"]
    assert not (who.ws / ".envrc").exists()


def test_planted_hooks_in_a_new_repository(who):
    need("git")
    r = who.sh("git init -q . && echo evil > .git/hooks/post-checkout && chmod +x .git/hooks/post-checkout", GIT_ENV)
    assert r.code == 0
    assert ".git/hooks" in " ".join(denied_paths(r.json))
    assert not (who.ws / ".git/hooks/post-checkout").exists()


def test_planted_config_in_a_new_repository(who):
    need("git")
    r = who.sh("git init -q . && git config core.fsmonitor 'touch /tmp/evil'", GIT_ENV)
    assert r.code == 0 and denied_paths(r.json) == [".git/config"]
    assert not (who.ws / ".git/config").exists()


# -- links --------------------------------------------------------------------

def test_symlinked_protected_path_is_restored(who):
    who.write(who.ws / "dotfiles/envrc", "mine\n")
    who.symlink(who.ws / ".envrc", "dotfiles/envrc")
    r = who.sh("rm .envrc; echo evil > .envrc")
    assert r.code == 0
    assert ".envrc" in denied_paths(r.json)
    assert os.readlink(who.ws / ".envrc") == "dotfiles/envrc"


def test_symlink_repointed_is_restored(who):
    who.symlink(who.ws / ".envrc", "safe")
    r = who.sh("ln -sfn evil .envrc; echo bad > evil")
    assert ".envrc" in denied_paths(r.json)
    assert os.readlink(who.ws / ".envrc") == "safe"


def test_symlink_out_of_the_workspace_is_not_followed(who):
    outside = who.mkdir(who.base / "outside")
    who.symlink(who.ws / ".vscode", outside)
    r = who.sh("echo x > .vscode/tasks.json; ls .vscode")
    assert r.json["ran"] and os.listdir(outside) == []


def test_git_directory_as_a_link(who):
    need("git")
    real = who.mkdir(who.ws / "real")
    who.host("git", "init", "-q", real)
    who.symlink(who.ws / ".git", "real/.git")
    r = who.sh("rm .git; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit")
    assert r.json["ran"]
    assert os.path.islink(who.ws / ".git") and os.readlink(who.ws / ".git") == "real/.git"


# -- the option ---------------------------------------------------------------

def test_protect_option(who):
    who.write(who.ws / "ci/deploy.sh", "mine\n")
    r = who.sh("echo evil > ci/deploy.sh; echo evil > new.lock; cat ci/deploy.sh; echo x > .envrc",
               ["--protect", "ci/deploy.sh", "--protect", "new.lock"])
    assert r.json["stdout"] == "mine\n"
    assert denied_paths(r.json) == [".envrc", "new.lock"]
    assert (who.ws / "ci/deploy.sh").read_text() == "mine\n"


def moved_to(who, j):
    """Where the report says that things are; each is there."""
    said = [w.rstrip(".,;:)") for d in j["denied"] for w in d["fix"].split() if "brig-denied" in w]
    assert said and all(os.path.lexists(who.ws / w) for w in said), j["denied"]
    return said


@pytest.mark.parametrize("order", [("a/b", "a"), ("a", "a/b")])
def test_a_directory_is_moved_whole(who, order):
    """Once, and the report names what is there, whatever the order of the patterns."""
    r = who.sh("mkdir a; echo x >a/b", ["--protect", order[0], "--protect", order[1]])
    assert denied_paths(r.json) == ["a"]
    (aside,) = moved_to(who, r.json)
    assert (who.ws / aside / "b").read_text() == "x\n"


def test_a_link_is_moved_once(who):
    """Two patterns meet it, one of which finds what the other made of it."""
    r = who.sh("""mkdir -p .git/modules/foo/objects .git/modules/foo/refs evil
    echo 'ref: refs/heads/x' >.git/modules/foo/HEAD
    ln -s ../../../evil .git/modules/foo/hooks""")
    assert denied_paths(r.json) == [".git/modules/foo/hooks"]
    assert len(moved_to(who, r.json)) == 1


def test_protect_none(who):
    r = who.sh("echo fine > .envrc", ["--protect", "none"])
    assert r.json["denied"] == [] and (who.ws / ".envrc").read_text() == "fine\n"
    r = who.sh("echo fine > .bashrc; echo x > only", ["--protect", "none", "--protect", "only"])
    assert denied_paths(r.json) == ["only"] and (who.ws / ".bashrc").exists()


# -- real git -----------------------------------------------------------------

def test_git_in_an_existing_repository(repo):
    r = repo.sh("set -e; echo hello > f; git add f; git commit -q -m second; git log --oneline | wc -l; "
                "git status --porcelain; git checkout -q -b topic; git branch; git gc -q --prune=now; git fsck", GIT_ENV)
    assert r.code == 0, r.json["stderr"]
    assert r.json["stdout"].startswith("2\n") and "* topic" in r.json["stdout"]
    assert r.json["denied"] == [], r.json["denied"]
    assert repo.host("git", "log", "--format=%s").stdout == b"second\nfirst\n"
    assert repo.host("git", "status", "--porcelain").stdout == b""


def test_git_init_inside(who):
    need("git")
    r = who.sh("set -e; git init -q .; echo x > f; git add .; git commit -q -m one; git gc -q; git log --oneline | wc -l", GIT_ENV)
    assert r.code == 0, r.json["stderr"]
    assert r.json["stdout"] == "1\n" and r.json["denied"] == [], r.json["denied"]
    # and it is a repository afterwards, outside
    assert who.host("git", "log", "--format=%s").stdout == b"one\n"


def test_git_worktree(repo):
    r = repo.sh("set -e; git worktree add -q wt -b side; cd wt; echo x > g; git add g; git commit -q -m side; "
                "git log --oneline | wc -l; cd ..; git worktree list | wc -l", GIT_ENV)
    assert r.code == 0, r.json["stderr"]
    assert r.json["stdout"] == "2\n2\n" and r.json["denied"] == [], r.json["denied"]
    assert repo.host("git", "-C", "wt", "status", "--porcelain").stdout == b""


def test_linked_worktree_as_workspace(repo):
    """The workspace is a worktree whose repository lies outside: shown with --rw."""
    wt = repo.base / "linked"
    repo.host("git", "worktree", "add", "-q", wt, "-b", "linked")
    r = repo.brig("run", "--json", "--workspace", wt, "--rw", repo.ws / ".git", *GIT_ENV, "--", "sh", "-c",
                  "set -e; echo x > h; git add h; git commit -q -m linked; git log --oneline | wc -l", cwd=wt)
    assert r.code == 0, r.json
    assert r.json["stdout"] == "2\n"


def test_git_clone_and_submodule_inside(repo):
    r = repo.sh("set -e; git clone -q . copy; cd copy; git log --oneline | wc -l", GIT_ENV)
    assert r.code == 0 and r.json["stdout"] == "1\n", r.json


def test_git_stash_rebase_tag(repo):
    r = repo.sh("set -e; echo a > f; git add f; git stash -q; git stash pop -q; git commit -q -m a; git tag v1; "
                "git checkout -q -b x HEAD~1; echo b > g; git add g; git commit -q -m b; git rebase -q main; "
                "git log --oneline | wc -l", GIT_ENV)
    assert r.code == 0 and r.json["stdout"] == "3\n", r.json
    assert r.json["denied"] == []


def test_host_git_does_not_obey_what_was_planted(repo):
    """The point of it all: after the run, git on the host runs nothing of theirs."""
    repo.sh("""
    git config core.fsmonitor 'touch %(m)s'; git config core.sshCommand 'touch %(m)s'
    printf '#!/bin/sh\\ntouch %(m)s\\n' > .git/hooks/post-index-change; chmod +x .git/hooks/*
    printf '[core]\\nfsmonitor = touch %(m)s\\n' > .git/config.worktree
    echo ../evil > .git/commondir; mkdir -p evil/objects evil/refs; echo 'ref: refs/heads/main' > evil/HEAD
    printf '[core]\\nfsmonitor = touch %(m)s\\n' > evil/config
    echo 'ref: refs/heads/main' > HEAD; mkdir -p objects refs; printf '[core]\\nbare=true\\nfsmonitor = touch %(m)s\\n' > config
    """ % {"m": repo.marker})
    subprocess.run(["rm", "-f", str(repo.marker)])
    repo.host("git", "status", check=False)
    repo.host("git", "log", check=False)
    assert not repo.marker.exists()


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_a_stopped_supervisor_still_looks(user, backend):
    """A poll that is interrupted while the filter's listener is busy ends with an error on
    it, which is not its end: what the command plants afterwards is swept all the same."""
    refuse = ("import ctypes, time\ncall = ctypes.CDLL(None).syscall\nend = time.time() + 3\n"
              "while time.time() < end:\n for i in range(200): call(300, 0, 0)\n")  # fanotify_init
    user.write(user.ws / "refuse.py", refuse)
    p = user.popen([BRIG, "run", "--json", "--backend", backend, "--workspace", user.ws, "--", "sh", "-c",
                    "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do python3 refuse.py & done; wait; "
                    "mkdir .vscode; echo x > .envrc"],
                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + 3.5
    while time.monotonic() < end and p.poll() is None:
        os.kill(p.pid, signal.SIGSTOP)
        os.kill(p.pid, signal.SIGCONT)
        time.sleep(0.0003)
    out, err = p.communicate(timeout=60)
    j = json.loads(out)
    assert j["exit"] == 0 and not j["timed_out"], (j, err)
    counts = {d["target"]: d["count"] for d in j["denied"]}
    assert counts["fanotify_init"] > 1000 and ".vscode" in counts and ".envrc" in counts, counts
    assert not (user.ws / ".vscode").exists() and not (user.ws / ".envrc").exists()


@pytest.mark.parametrize("opts", [[], ["--toolchains", "none"]], ids=["tools", "no tools"])
def test_where_the_callers_own_git_settings_look_for_hooks(who, opts):
    """A relative core.hooksPath there is one in every work tree, whether or not it is there."""
    who.write(who.home / ".gitconfig", "[core]\n\thooksPath = ./tools/hooks/\n")
    who.host("git", "init", "-q", ".", env={"HOME": str(who.home)})
    r = who.sh("mkdir -p tools/hooks && echo evil > tools/hooks/post-checkout && echo fine > tools/other", opts)
    assert r.code == 0 and (who.ws / "tools/other").read_text() == "fine\n"
    assert not os.path.lexists(who.ws / "tools/hooks"), r.json
    assert [d["target"] for d in r.json["denied"]] == ["tools/hooks"]
    who.write(who.ws / "tools/hooks/post-checkout", "mine\n", 0o755)
    r = who.sh("echo evil > tools/hooks/post-checkout", opts)
    assert r.code != 0 and (who.ws / "tools/hooks/post-checkout").read_text() == "mine\n"


@pytest.mark.parametrize("value", ["/opt/hooks", "~/hooks", "../hooks", "a/*/b", "."])
def test_settings_for_hooks_that_are_not_in_the_workspace(who, value):
    who.write(who.home / ".gitconfig", "[core]\n\thooksPath = %s\n" % value)
    r = who.sh("mkdir -p opt hooks a/x/b && : > hooks/f && : > file")
    assert r.code == 0 and r.json["denied"] == [], r.json


@pytest.mark.parametrize("value", ["%(ws)s/hooks", "~/../ws/hooks", "~/link/hooks", "~/in/hooks"])
def test_settings_for_hooks_that_name_the_workspace(who, value):
    """By its path, absolute or below HOME; not through links, nor with dots, which would take a look at files."""
    ws = who.mkdir(who.home / "in") if "in/" in value else who.ws
    who.symlink(who.home / "link", who.ws)
    who.write(who.home / ".gitconfig", "[core]\n\thooksPath = %s\n" % (value % {"ws": who.ws}))
    r = who.run("sh", "-c", "mkdir hooks && : > hooks/f", opts=["--workspace", ws])
    protected = value[0] == "%" or "in/" in value
    assert os.path.lexists(ws / "hooks") != protected, r.json
