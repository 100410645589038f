# Sourced by install.sh and by the package's postinst: what lies outside the program. POSIX sh.
#
#   set_up_host        the system user, its folders, the journal's catalog
#   set_up_config FROM /etc/taskengine: what is there stays as it is; every credential is root's alone
#   restart_by COMMAND the daemons that run drain and start again, with the socket of HTTP left open
#   stop_all           they drain and stop
#   enabled_ones       the units that a new installation enables

CONFIG=/etc/taskengine
DEFAULT_DSN='postgresql://taskengine@/taskengine?host=/run/postgresql'
DEFAULT_REDIS='redis://127.0.0.1:6379/0'

set_up_host() {
  if [ -e /usr/lib/sysusers.d/taskengine.conf ]; then
    systemd-sysusers /usr/lib/sysusers.d/taskengine.conf
  elif ! getent passwd taskengine >/dev/null; then
    useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin taskengine
  fi
  if [ -e /usr/lib/tmpfiles.d/taskengine.conf ]; then
    systemd-tmpfiles --create /usr/lib/tmpfiles.d/taskengine.conf
  fi
  journalctl --update-catalog >/dev/null 2>&1 || true # no journal here: nothing to be explained in it
}

set_up_config() {
  install -d -m 0755 "$CONFIG"
  install -d -m 0700 -o root -g root "$CONFIG/credentials"
  [ -e "$CONFIG/config.toml" ] || install -m 0644 "$1" "$CONFIG/config.toml"
  credential postgres_dsn "${TASKENGINE_POSTGRES__DSN:-$DEFAULT_DSN}"
  credential redis_url "${TASKENGINE_REDIS__URL:-$DEFAULT_REDIS}"
  find "$CONFIG/credentials" -type f -exec chown root:root {} + -exec chmod 0600 {} +
  unset TASKENGINE_POSTGRES__DSN TASKENGINE_REDIS__URL # from here on the files say it, as they do to the daemon
}

# Written only where there is none; never to be seen in a list of processes, nor readable for a moment.
credential() {
  [ -e "$CONFIG/credentials/$1" ] || (umask 077 && printf '%s\n' "$2" >"$CONFIG/credentials/$1")
}

running_systemd() { [ -d /run/systemd/system ]; }

restart_by() {
  our_units active | sed -n '/^taskengine\(@.*\)\{0,1\}\.service$/p' | xargs -r "$1" restart
}

our_units() {
  systemctl list-units ${1:+--state="$1"} --all --plain --no-legend 'taskengine.service' 'taskengine@*.service' \
    'taskengine-http*.socket' 'taskengine-failed@*.service' 'taskengine*.slice' | cut -d ' ' -f 1
}

# Sockets first, or they would start again what is being stopped.
stop_all() {
  running_systemd || return 0
  our_units | sed -n '/\.socket$/p' | xargs -r systemctl stop
  our_units | sed '/\.socket$/d; /\.slice$/d' | xargs -r systemctl stop
}

enabled_ones() {
  for unit in taskengine.service taskengine-http.socket; do
    if [ -e "/usr/lib/systemd/system/$unit" ] || [ -e "/etc/systemd/system/$unit" ]; then echo "$unit"; fi
  done
}
