#!/usr/bin/env bash
# Installs TaskEngine on this host, or brings an installation up to date. Running it again changes nothing that is right.
#
#   deploy/install.sh [--no-start] [--no-migrate]
#
# The system user, the program in /opt/taskengine/.venv (on /usr/bin/python3), /etc/taskengine/config.toml and its
# credentials (kept where they are there; TASKENGINE_POSTGRES__DSN and TASKENGINE_REDIS__URL say them the first time), the
# units, the schema, and the start. What runs is drained and started again, but only if something has changed.
#
#   --no-start     enables the units, starts and restarts nothing
#   --no-migrate   leaves the schema alone: somebody else runs `taskengine migrate up`
#
# Exit status: 0 done; 2 a wrong argument; 4 a package is installed here, or the caller is not root; 5 Postgres cannot be
# reached; 69 something of the system is missing; 78 configuration or schema refused; 1 anything else. With 5 and 78 what
# ran before goes on running, and the next call goes on from there.
set -euo pipefail
cd -P "$(dirname "$(readlink -f "$0")")/.."
source deploy/venv.sh
source deploy/program.sh
source deploy/setup.sh

HOME_DIR=/opt/taskengine
CONFIGURED=/etc
start=1 migrate=1 changed=0

say() { echo "install.sh: $*" >&2; }
fail() { local status=$1; shift; say "$*"; exit "$status"; }

check_host() {
  ((EUID == 0)) || fail 4 "must be run as root: sudo deploy/install.sh"
  if dpkg-query --show --showformat='${Status}' taskengine 2>/dev/null | grep -q ' installed$'; then
    fail 4 "the package taskengine is installed here: upgrade that one, or apt-get remove it first"
  fi
  local command
  for command in systemctl install awk sha256sum; do
    command -v "$command" >/dev/null || fail 69 "$command is missing"
  done
  "$SYSTEM_PYTHON" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    fail 69 "$SYSTEM_PYTHON must be 3.11 or newer, with its module venv: apt-get install -y python3-venv"
}

# Made aside, tried by the migration, then put in place by a rename: what runs never sees half a program.
prepare_program() {
  local stamp
  stamp=$(program_stamp)
  rm -rf "$HOME_DIR/.venv.new" "$HOME_DIR/.venv.old"
  if [[ $(cat "$HOME_DIR/.venv/.stamp" 2>/dev/null) == "$stamp" ]]; then return; fi
  say "installing the program …"
  install -d "$HOME_DIR" "$HOME_DIR/jobs"
  build_program "$HOME_DIR/.venv.new" "$HOME_DIR/.venv" || fail 1 "the program could not be installed: see above"
  echo "$stamp" >"$HOME_DIR/.venv.new/.stamp"
}

replace_program() {
  [[ -d $HOME_DIR/.venv.new ]] || return 0
  if [[ -d $HOME_DIR/.venv ]]; then mv "$HOME_DIR/.venv" "$HOME_DIR/.venv.old"; fi
  mv "$HOME_DIR/.venv.new" "$HOME_DIR/.venv"
  changed=1
}

# Compared as a whole: a unit that this version no longer has is removed, one of somebody else's is not touched.
place_files() {
  local staged list=$HOME_DIR/.files file
  staged=$(mktemp -d)
  stage_files "$staged" "$CONFIGURED"
  install -D -m 0755 deploy/bin/taskengine "$staged/usr/local/bin/taskengine"
  (cd "$staged" && find . -type f ! -name .list -printf '/%P\n' | sort) >"$staged/.list"
  if [[ -e $list ]]; then comm -23 "$list" "$staged/.list" | xargs -r rm -f; fi
  while read -r file; do
    cmp -s "$staged$file" "$file" || { install -D -m "$(stat -c %a "$staged$file")" "$staged$file" "$file"; changed=1; }
  done <"$staged/.list"
  install -m 0644 "$staged/.list" "$list"
  rm -rf "$staged"
}

bring_schema_up() {
  ((migrate)) || return 0
  local next="" status=0
  if [[ -d $HOME_DIR/.venv.new ]]; then next=yes; fi
  TASKENGINE_NEXT=$next "$SYSTEM_PYTHON" -IS deploy/bin/taskengine migrate up || status=$?
  ((status == 0)) && return
  say "the schema could not be brought up to date, so nothing was started or restarted (what ran goes on). Look at"
  say "  $CONFIG/credentials/postgres_dsn (or owner_dsn) and $CONFIG/config.toml, then run this again"
  exit "$status"
}

start_all() {
  local units
  mapfile -t units < <(enabled_ones)
  systemctl --quiet enable "${units[@]}"
  running_systemd || { say "systemd does not run here: enabled, not started"; return; }
  systemctl daemon-reload
  ((start)) || { say "enabled, not started: systemctl start taskengine"; return; }
  if ((changed)); then restart_by systemctl; fi
  systemctl start "${units[@]}" || fail 1 "the daemon did not start: journalctl -u taskengine -n 50"
}

for argument in "$@"; do
  case $argument in
    --no-start) start=0 ;;
    --no-migrate) migrate=0 ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' deploy/install.sh; exit 0 ;;
    *) fail 2 "unknown argument $argument (--no-start, --no-migrate)" ;;
  esac
done
umask 022
check_host
prepare_program
place_files
set_up_host
set_up_config config.toml
bring_schema_up
replace_program
start_all
rm -rf "$HOME_DIR/.venv.old"
say "done; taskengine status tells how it is"
