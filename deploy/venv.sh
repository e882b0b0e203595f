# Sourced by `run` and `test`: the project's own environment in .venv, made once.
# It is made again only when the lock, pyproject.toml, the place or the Python changes.
# shellcheck shell=bash

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
ROOT=$PWD
# The project is found as the current directory too; nothing else that happens to be set may come before it.
unset PYTHONPATH PYTHONHOME
# Every program that is started would compile the whole project again.
unset PYTHONDONTWRITEBYTECODE

find_python() {
    local name
    for name in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3 python3.14 python; do
        if "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            printf '%s\n' "$name"
            return
        fi
    done
    {
        echo "Countersign needs Python 3.11 or newer, with its venv module. None was found."
        echo "  Debian, Ubuntu:  apt install python3 python3-venv"
        echo "  macOS:           brew install python@3.12"
        echo "  or name one:     PYTHON=/path/to/python3.12 deploy/run"
    } >&2
    return 1
}

# What the environment was made from, as text: compared instead of hashed, which needs no tool.
made_from() {
    printf '%s\n' "$ROOT"
    cat pyproject.toml "$1"
}

# install LOCK: makes .venv hold exactly what LOCK names, and the project itself.
install() {
    local lock=$1 stamp python began=$SECONDS
    stamp=.venv/made-from-$(basename "$lock")
    if [ -x .venv/bin/python ] && made_from "$lock" | cmp -s - "$stamp"; then
        return
    fi
    if ! .venv/bin/python -c '' >/dev/null 2>&1; then
        python=$(find_python)
        echo "Setting up .venv with $("$python" -V) (once) …" >&2
        rm -rf .venv
        "$python" -m venv .venv
    fi
    echo "Installing the $(grep -c == "$lock") packages that $lock names …" >&2
    if ! get_packages --require-hashes -r "$lock" || ! get_packages --no-deps --no-build-isolation --editable .; then
        echo "The installation did not succeed. The first set-up needs a network; run the command again to go on." >&2
        return 1
    fi
    made_from "$lock" >"$stamp"
    echo "Installed in $((SECONDS - began)) s." >&2
}

# get_packages WORDS…: installs with uv, in seconds; where uv cannot be had or does not succeed, with pip.
get_packages() {
    local pip=(.venv/bin/python -m pip --disable-pip-version-check) uv index quiet=()
    [ -t 2 ] || quiet=(--quiet) # a terminal sees the progress
    uv=$(command -v uv || command -v .venv/bin/uv) ||
        { "${pip[@]}" install --quiet --require-hashes -r deploy/requirements-uv.lock && uv=.venv/bin/uv; } || true
    if [ -n "$uv" ]; then
        # uv reads no pip.conf.
        index=$("${pip[@]}" config list | sed -n "s/^[a-z:]*\.index-url='\(.*\)'$/\1/p" | tail -n 1)
        if env ${index:+"UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$index}"} \
            "$uv" pip install --python .venv/bin/python ${quiet[@]+"${quiet[@]}"} "$@"; then
            return
        fi
        echo "uv did not succeed; pip is tried …" >&2
    fi
    "${pip[@]}" install --retries 5 ${quiet[@]+"${quiet[@]}"} "$@"
}

# add LOCK: brings what LOCK names on top of what is installed.
add() {
    local lock=$1 stamp
    stamp=.venv/made-from-$(basename "$lock")
    if ! cmp -s "$lock" "$stamp"; then
        echo "Adding what $lock names …" >&2
        get_packages --require-hashes -r "$lock" || return 1
        cp "$lock" "$stamp"
    fi
}
