# SPDX-License-Identifier: Apache-2.0
"""Toolchain presets: what the caller's PATH resolves to works inside, read-only;
the rest of HOME stays away, and credentials do whatever is shown."""
import json
import os
import shutil
import subprocess

import pytest

from conftest import BRIG, need

SECRET = "do-not-show-this"
NODE = ".nvm/versions/node/v20.0.0"


def path(who, *dirs):
    """The environment of a caller who has these (below HOME) before the system's."""
    return {"PATH": ":".join([str(who.home / d) for d in dirs] + [who.env["PATH"]])}


def script(who, place, text="echo works"):
    """A program below HOME that needs nothing but a shell."""
    return who.write(who.home / place, "#!/bin/sh\n%s\n" % text, 0o755)


def secrets(who):
    """A home as people have it."""
    for name in (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".npmrc", ".config/gh/hosts.yml",
                 ".docker/config.json", ".cargo/credentials.toml", ".mozilla/firefox/logins.json",
                 ".config/google-chrome/Default/Cookies", ".bash_history", ".claude.json"):
        who.write(who.home / name, SECRET, 0o600)
    who.write(who.home / "notes.txt", "plain")
    who.write(who.home / ".config/plain/settings", "plain")


def shown_at_home(who, **kw):
    return who.ok("ls -A ~", **kw).split()


def test_nvm(who):
    """What the issue asks to be shown."""
    secrets(who)
    script(who, NODE + "/bin/node", 'echo "node $*"')
    env = path(who, NODE + "/bin")
    r = who.run("node", "-e", "console.log(1)", env=env)
    assert r.json["stdout"] == "node -e console.log(1)\n", r.json
    assert shown_at_home(who, env=env) == [".nvm"]
    assert who.ok("ls -A ~/.nvm ~/.nvm/versions ~/.nvm/versions/node", env=env).count("v20") == 1
    r = who.sh("cat ~/.ssh/id_ed25519", env=env)
    assert r.code != 0 and SECRET not in r.json["stdout"]


def test_nvm_with_a_real_node(user):
    need("node")
    who = user
    who.mkdir(who.home / NODE / "bin")
    node = who.home / NODE / "bin/node"
    shutil.copy(os.path.realpath(shutil.which("node", path="/usr/local/bin:/usr/bin")), node)
    node.chmod(0o755)
    r = who.run("node", "-e", "console.log(process.execPath)", env=path(who, NODE + "/bin"),
                opts=["--memory", "0", "--pids", "256"])
    assert r.json["stdout"] == "%s\n" % node, r.json


@pytest.mark.parametrize("program", ["python3", "pip", "cargo", "rustc", "node", "npm", "go", "java"])
def test_what_is_on_the_path_of_whoever_runs_the_tests(base, program):
    """Real ones, with the real HOME: pyenv, rustup, /usr/local and whatever else this machine has."""
    if not shutil.which(program):
        pytest.skip("%s is not on PATH" % program)
    say = [program, "version" if program == "go" else "--version"]
    outside = subprocess.run(say, capture_output=True, text=True)
    if outside.returncode:
        pytest.skip("%s does not work outside either" % program)
    ws = base / ("real-%s" % program)
    ws.mkdir()
    p = subprocess.run([BRIG, "run", "--json", "--workspace", ws, "--", *say], capture_output=True, text=True,
                       stdin=subprocess.DEVNULL)
    j = json.loads(p.stdout)
    assert (p.returncode, j["stdout"], j["stderr"]) == (0, outside.stdout, outside.stderr), j
    r = subprocess.run([BRIG, "run", "--workspace", ws, "--", "sh", "-c", "cat ~/.npmrc ~/.cargo/credentials.toml; ls ~/.ssh"],
                       capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert r.stdout == ""


def test_read_only_and_home_stays_writable(who):
    script(who, NODE + "/bin/node")
    out = who.ok("touch ~/%s/bin/x ~/%s/x 2>/dev/null; echo no > ~/%s/bin/node; echo mine > ~/.nvm/y; cat ~/.nvm/y; node"
                 % (NODE, NODE, NODE), env=path(who, NODE + "/bin"))
    assert out == "mine\nworks\n"
    assert os.listdir(who.home / NODE) == ["bin"] and os.listdir(who.home / ".nvm") == ["versions"]


def test_none_and_names(who):
    script(who, NODE + "/bin/only-here")
    script(who, ".cargo/bin/cargo")
    env = path(who, NODE + "/bin", ".cargo/bin")
    assert sorted(shown_at_home(who, env=env)) == [".cargo", ".nvm"]
    assert sorted(shown_at_home(who, env=env, opts=["--toolchains", "auto"])) == [".cargo", ".nvm"]
    assert shown_at_home(who, env=env, opts=["--toolchains", "none"]) == []
    assert shown_at_home(who, env=env, opts=["--toolchains", "rust,git"]) == [".cargo"]
    assert shown_at_home(who, env=env, opts=["--toolchains", "cargo"]) == [".cargo"]
    assert who.sh("only-here", env=env, opts=["--toolchains", "none"]).code == 127


def test_unknown_name(who):
    r = who.brig("run", "--workspace", who.ws, "--toolchains", "auto,nmv", "--", *who.ran_marker())
    assert r.code in (2, 125) and "nmv" in r.err and "nvm" in r.err, r
    assert not who.marker.exists()


def test_explain(who):
    script(who, NODE + "/bin/node")
    who.mkdir(who.home / "open").chmod(0o777)
    r = who.brig("explain", "--workspace", who.ws, "--", "true", env=path(who, NODE + "/bin", "open"))
    assert r.code == 0, r
    assert NODE in r.out and "nvm" in r.out
    assert "anyone may write there" in r.out


def test_path_order_and_links(who):
    """The first on PATH wins inside as outside, also through a link."""
    script(who, ".sdkman/candidates/java/17/bin/java", 'echo "17 $JAVA_HOME"')
    who.symlink(who.home / ".sdkman/candidates/java/current", "17")
    script(who, "bin/java", "echo mine")
    java_home = str(who.home / ".sdkman/candidates/java/current")
    env = path(who, ".sdkman/candidates/java/current/bin", "bin")
    env["JAVA_HOME"] = java_home
    assert who.ok("java", env=env) == "17 %s\n" % java_home
    assert who.ok("java", env=path(who, "bin", ".sdkman/candidates/java/current/bin")) == "mine\n"


def test_fnm_link_of_one_shell(who):
    script(who, ".local/share/fnm/node-versions/v20/installation/bin/node")
    shells = who.mkdir(who.home / ".local/state/fnm_multishells")
    who.symlink(shells / "1_2", who.home / ".local/share/fnm/node-versions/v20/installation")
    env = path(who, ".local/state/fnm_multishells/1_2/bin")
    assert who.ok("node", env=env) == "works\n"
    assert who.ok("ls -A ~/.local", env=env).split() == ["share"]


def test_pyenv_shims(who):
    script(who, ".pyenv/shims/python", 'exec "$PYENV_ROOT/libexec/pyenv" exec "$0"')
    script(who, ".pyenv/libexec/pyenv", '"$PYENV_ROOT/versions/$(cat "$PYENV_ROOT/version")/bin/python"')
    script(who, ".pyenv/versions/3.12.1/bin/python", "echo 3.12.1")
    who.write(who.home / ".pyenv/version", "3.12.1\n")
    assert who.ok("python", env=path(who, ".pyenv/shims")) == "3.12.1\n"


def test_rust_without_its_credentials(who):
    secrets(who)
    script(who, ".cargo/bin/cargo", '"$RUSTUP_HOME/toolchains/stable/bin/cargo"')
    script(who, ".rustup/toolchains/stable/bin/cargo", "echo compiled > ~/.cargo/made; cat ~/.cargo/made")
    out = who.ok("cargo; ls -A ~/.cargo; cat ~/.cargo/credentials.toml || true", env=path(who, ".cargo/bin"))
    assert out == "compiled\nbin\nmade\n"
    assert not (who.home / ".cargo/made").exists()


def test_venv_outside_the_workspace(who):
    venv = who.home / "envs/a"
    who.mkdir(venv.parent)
    if who.host("/usr/bin/python3", "-m", "venv", "--without-pip", venv, check=False).returncode:
        pytest.skip("the system's Python has no venv module")
    env = dict(path(who, "envs/a/bin"), VIRTUAL_ENV=str(venv))
    out = who.ok('python3 -c "import sys; print(sys.prefix)"; echo $VIRTUAL_ENV', env=env)
    assert out.split() == [str(venv), str(venv)]


def base_python(who, place="pythons/3.12"):
    script(who, place + "/bin/python3.12", "cat %s/lib/python3.12/os.py" % (who.home / place))
    who.write(who.home / place / "lib/python3.12/os.py", "the standard library")
    return who.home / place


def test_venv_in_the_workspace_with_its_base_in_home(who):
    base = base_python(who)
    who.write(who.ws / ".venv/pyvenv.cfg", "home = %s/bin\nversion_info = 3.12.5\n" % base)
    who.mkdir(who.ws / ".venv/bin")
    who.symlink(who.ws / ".venv/bin/python", base / "bin/python3.12")
    assert who.ok(".venv/bin/python") == "the standard library"
    env = {"PATH": "%s/.venv/bin:/usr/bin:/bin" % who.ws}
    assert who.ok("python", env=env) == "the standard library"


@pytest.mark.parametrize("home", ["private/bin", "private", ".ssh", "", ".."])
def test_a_sandbox_cannot_choose_what_is_shown(who, home):
    """A pyvenv.cfg written inside names something of HOME: it stays away."""
    secrets(who)
    script(who, "private/bin/python3.12")
    who.write(who.home / "private/lib/secret", SECRET)
    target = who.home / home
    who.ok("mkdir -p .venv/bin; printf 'home = %s\\nversion = 3.12\\n' > .venv/pyvenv.cfg" % target)
    out = who.ok("ls -A ~; cat ~/private/lib/secret ~/.ssh/* 2>/dev/null || true")
    assert out == ""


def test_a_link_in_the_workspace_is_not_followed(who):
    script(who, "private/bin/x")
    who.symlink(who.ws / "tools", who.home / "private")
    r = who.sh("x", env={"PATH": "%s/tools/bin:/usr/bin:/bin" % who.ws})
    assert r.code == 127
    assert shown_at_home(who, env={"PATH": "%s/tools/bin:/usr/bin:/bin" % who.ws}) == []


def test_local_bin_and_what_its_links_lead_to(who):
    secrets(who)
    script(who, ".local/bin/plain")
    script(who, "opt/tool/bin/tool", 'cat "%s/opt/tool/lib/data"' % who.home)
    who.write(who.home / "opt/tool/lib/data", "tool data")
    who.write(who.home / "opt/other", "not for you")
    script(who, ".local/share/pipx/venvs/black/bin/black", "echo black")
    for name, target in (("tool", "../../opt/tool/bin/tool"), ("black", "../share/pipx/venvs/black/bin/black"),
                         ("key", "../../.ssh/id_ed25519"), ("gone", "nowhere"), ("loop", "loop")):
        who.symlink(who.home / ".local/bin" / name, target)
    env = path(who, ".local/bin")
    assert who.ok("plain; tool; black", env=env) == "works\ntool datablack\n"
    assert who.ok("cat ~/.local/bin/key ~/opt/other || ls -A ~/opt", env=env) == "tool\n"


def test_pip_user_packages(who):
    import_name = "brigmodule"
    version = who.host("/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").stdout.decode().strip()
    who.write(who.home / (".local/lib/python%s/site-packages/%s.py" % (version, import_name)), "print('imported')")
    assert who.ok("/usr/bin/python3 -c 'import %s'" % import_name) == "imported\n"


def test_directories_others_may_change(who):
    script(who, "open/prog")
    (who.home / "open").chmod(0o777)
    assert who.sh("prog", env=path(who, "open")).code == 127


def test_home_on_path_shows_nothing(who):
    secrets(who)
    for entry in (who.home, who.base, "/", "/etc", who.home / ".ssh", who.home / ".config"):
        env = {"PATH": "%s:/usr/bin:/bin" % entry}
        assert shown_at_home(who, env=env) == []
        assert who.sh("cat /etc/shadow ~/.ssh/id_ed25519", env=env).json["stdout"] == ""


def test_git_identity(who):
    need("git")
    who.write(who.home / ".gitconfig", '[user]\n\tname = A "B" \\\\ C\n\temail = a@b.example\n'
              "[credential]\n\thelper = store\n[core]\n\tsshCommand = evil\n[include]\n\tpath = more\n")
    who.write(who.home / "more", "[user]\n\tname = included\n")
    outside = who.host("git", "config", "--file", who.home / ".gitconfig", "user.name").stdout.decode()
    assert who.ok("git config user.name; git config user.email") == outside + "a@b.example\n"
    assert who.ok("git config credential.helper; git config core.sshCommand; ls -A ~") == ""
    assert str(who.ws) in who.ok("git config --get-all safe.directory").splitlines()
    who.ok("git init -q . && echo x > f && git add f && git commit -qm one && git log --format=%ae")
    assert who.sh("git config user.name", opts=["--toolchains", "none"]).code != 0


def test_known_hosts_without_the_keys(who):
    secrets(who)
    who.write(who.home / ".ssh/known_hosts", "host ssh-ed25519 AAAA\n", 0o600)
    assert who.ok("cat ~/.ssh/known_hosts; ls -A ~/.ssh") == "host ssh-ed25519 AAAA\nknown_hosts\n"
    assert shown_at_home(who, opts=["--toolchains", "none"]) == []


def test_credentials_are_masked_when_home_is_the_workspace(who):
    secrets(who)
    r = who.brig("run", "--json", "--workspace", who.home, "--allow-home", "--", "sh", "-c",
                 "cat notes.txt .config/plain/settings; grep -rs %s . ; cat .ssh/id_ed25519 .netrc .npmrc "
                 ".config/gh/hosts.yml .docker/config.json .claude.json; echo end" % SECRET, cwd=who.home)
    assert r.code == 0, r
    assert r.json["stdout"] == "plainplainend\n"
    # and what is masked is still there afterwards
    assert (who.home / ".ssh/id_ed25519").read_text() == SECRET


def test_credentials_are_masked_under_a_shown_parent(who):
    secrets(who)
    conf = who.home / ".config"
    r = who.sh("cat /conf/plain/settings; cat /conf/gh/hosts.yml; grep -rs %s /conf; echo end" % SECRET,
               opts=["--ro", "%s:/conf" % conf])
    assert r.json["stdout"] == "plainend\n", r.json
    # a place that is named itself was chosen
    out = who.ok("cat /gh/hosts.yml", opts=["--ro", "%s/gh:/gh" % conf])
    assert out == SECRET


def test_credentials_behind_a_link(who):
    who.write(who.home / "dotfiles/aws/credentials", SECRET)
    who.symlink(who.home / ".aws", "dotfiles/aws")
    r = who.sh("grep -rs %s /dots; ls /dots; echo end" % SECRET, opts=["--ro", "%s:/dots" % (who.home / "dotfiles")])
    assert r.json["stdout"] == "aws\nend\n", r.json
