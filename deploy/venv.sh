# Sourced by deploy/try and tests/run: a virtual environment that holds exactly what a lock names.
#
#   make_venv LOCK     in the current folder: .venv with what LOCK pins, and this project itself
#
# A second call with nothing changed takes no time: a stamp in .venv remembers the inputs.

EX_UNAVAILABLE=69

make_venv() {
  local lock=$1 stamp inputs
  stamp=.venv/.installed-$(tr / - <<<"$lock")
  inputs=$(cksum "$lock" deploy/tools.lock pyproject.toml; pwd -P)
  if [[ -r $stamp && $(<"$stamp") == "$inputs" && -x .venv/bin/python ]]; then return; fi
  local python
  python=$(find_python) || explain_python
  usable_venv || "$python" -m venv --clear .venv
  avoid_unwritable_caches
  trust_the_machines_certificates
  echo "Installing into .venv (once for each change of $lock) …" >&2
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
    --require-hashes -r deploy/tools.lock
  .venv/bin/uv pip install --quiet --python .venv/bin/python --require-hashes -r "$lock"
  .venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation -e .
  printf '%s\n' "$inputs" >"$stamp"
}

# Not one that was broken off, copied here from elsewhere, or made by a Python since removed.
usable_venv() {
  head -n 3 .venv/bin/pip 2>/dev/null | grep -qF "$(pwd -P)/.venv/bin/" &&
    .venv/bin/python -m pip --version &>/dev/null
}

# The first Python that is new enough and can make a virtual environment.
find_python() {
  local name
  for name in python3 python3.{14,13,12,11} /usr/bin/python3; do
    if "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
    then command -v "$name"; return; fi
  done
  return 1
}

explain_python() {
  local sudo=""
  ((EUID == 0)) || sudo="sudo "
  {
    echo "Python 3.11 or newer with its module venv is needed. On Debian and Ubuntu:"
    echo "  ${sudo}apt-get install -y python3-venv"
  } >&2
  exit "$EX_UNAVAILABLE"
}

# Both pip and uv want a cache in the home folder, and uv gives up where it cannot have one.
avoid_unwritable_caches() {
  local cache=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}
  if ! { mkdir -p "$cache/uv" && [[ -w $cache/uv ]]; } 2>/dev/null; then
    export UV_NO_CACHE=1 PIP_NO_CACHE_DIR=1
  fi
}

# uv brings certificates of its own, which do not know a company's proxy; the machine's do.
trust_the_machines_certificates() {
  if [[ -r /etc/ssl/certs/ca-certificates.crt ]]; then export UV_SYSTEM_CERTS=true; fi
}
