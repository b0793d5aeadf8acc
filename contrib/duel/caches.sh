# In the guest: the two disks, and the caches over them. scripts/duel puts this before each of its other parts.
#   disk SERIAL          its device
#   up CACHE, down       makes a cache over $SSD and $HDD, empty; its device is $DEV
#   dirty, drain         prints the dirty blocks; writes them back to the HDD
#   counts               reads, sectors read, writes, sectors written, flushes of HDD and SSD, and processor time in ticks, as JSON
# Settings: CACHE_MB, CONGESTION (bcache: "default", or 0 for "never"), MODE (write-back), KICKCACHE_ARGS (commas for blanks).
: "${CACHE_MB:=256}" "${CONGESTION:=0}" "${MODE:=write-back}" "${KICKCACHE_ARGS:=}"
# For metadata: caches with metadata on a part of its own get this much more space.
META_MB=8
while read -r m; do insmod "/modules/$m"; done < /modules/more
export KICKCACHE_STATE=/tmp/state DM_DISABLE_UDEV=1
mkdir -p /run/kickcache

disk() { # SERIAL
  for d in /sys/block/vd*; do [ "$(cat "$d/serial")" != "$1" ] || { echo "/dev/${d##*/}"; return; }; done; }
SSD=$(disk SSD); HDD=$(disk HDD); sectors=$(blockdev --getsz "$HDD")
wait_for() { i=0; while ! test "$1" "$2" && [ $i -lt 100 ]; do sleep .1; i=$((i + 1)); done; test "$1" "$2" || { echo "duel: no $2"; cat /tmp/err; exit 1; }; }
zero_start() { dd if=/dev/zero of="$1" bs=1M count="${2:-1}" oflag=direct 2> /dev/null; }
linear() { # NAME FROM_MB MB: a part of the SSD
  dmsetup create "$1" --table "0 $(($3 * 2048)) linear $SSD $(($2 * 2048))"; }
whole() { linear fast 0 $((CACHE_MB + META_MB)); zero_start /dev/mapper/fast; zero_start "$HDD"; }
dm_table() { echo "0 $sectors cache /dev/mapper/meta /dev/mapper/fast $HDD 128 1 writeback $1 0"; }

up() { # CACHE
  cache=$1
  case $cache in
    hdd) DEV=$HDD ;;
    ssd) DEV=$SSD ;;
    dm-cache)
      linear meta 0 $META_MB; linear fast $META_MB "$CACHE_MB"; zero_start /dev/mapper/meta $META_MB
      dmsetup create cached --table "$(dm_table smq)"; DEV=/dev/mapper/cached ;;
    dm-writecache)
      whole; dmsetup create cached --table "0 $sectors writecache s $HDD /dev/mapper/fast 4096 0"; DEV=/dev/mapper/cached ;;
    bcache | bcache-cut-off)
      # The kernel refuses a device of 512 buckets or fewer.
      bucket=512; while [ $(((CACHE_MB + META_MB) * 1024 / bucket)) -le 512 ]; do bucket=$((bucket / 2)); done
      whole; make-bcache --wipe-bcache --block 4k --bucket ${bucket}k --writeback -C /dev/mapper/fast -B "$HDD" > /tmp/err 2>&1
      echo "$HDD" > /sys/fs/bcache/register; readlink -f /dev/mapper/fast > /sys/fs/bcache/register
      wait_for -b /dev/bcache0; sleep 1; B=/sys/block/bcache0/bcache; DEV=/dev/bcache0
      [ -e $B/cache ] && grep -q '\[writeback\]' $B/cache_mode || { echo "duel: bcache has no cache, or does not write back"; exit 1; }
      [ "$cache" = bcache-cut-off ] || echo 0 > $B/sequential_cutoff
      [ "$CONGESTION" = default ] || { echo 0 > $B/cache/congested_read_threshold_us; echo 0 > $B/cache/congested_write_threshold_us; } ;;
    kickcache-*)
      whole; rm -rf /tmp/state; front="--ublk=0"; [ "$cache" = kickcache-ublk ] || front="--nbd unix:/run/kickcache/v.sock"
      kickcache format --force /dev/mapper/fast > /tmp/err 2>&1 || cat /tmp/err
      # shellcheck disable=SC2046,SC2086 # several words
      kickcache serve --cache /dev/mapper/fast --origin "$HDD" --name v --mode "$MODE" $front $(echo "$KICKCACHE_ARGS" | tr , ' ') > /tmp/err 2>&1 & daemon=$!
      if [ "$cache" = kickcache-ublk ]; then DEV=/dev/ublkb0; wait_for -b $DEV
      else wait_for -S /run/kickcache/v.sock; nbd-client -unix /run/kickcache/v.sock /dev/nbd0 -N v -b 4096 > /tmp/nbd 2>&1 || cat /tmp/nbd; DEV=/dev/nbd0; fi ;;
    *) echo "duel: no cache is called $cache"; exit 1 ;;
  esac
  sleep .5; [ -b "$DEV" ] || { echo "duel: $cache has no device"; cat /tmp/err; exit 1; }
}
down() {
  case $cache in
    dm-cache) dmsetup remove cached; dmsetup remove fast; dmsetup remove meta ;;
    dm-writecache) dmsetup remove cached; dmsetup remove fast ;;
    bcache*) set=$(readlink -f $B/cache); echo 1 > $B/stop; echo 1 > "$set/stop"; i=0
      while ! dmsetup remove fast 2> /dev/null && [ $i -lt 60 ]; do sleep 1; i=$((i + 1)); done ;;
    kickcache-*) [ "$cache" = kickcache-ublk ] || nbd-client -d /dev/nbd0 > /dev/null 2>&1
      kickcache stop > /tmp/stop 2>&1 || cat /tmp/stop; wait $daemon; grep -E "WARN|ERROR" /tmp/err; dmsetup remove fast ;;
  esac; }
dirty() {
  case $cache in
    dm-cache) dmsetup status cached | awk '{print $14}' ;;
    dm-writecache) dmsetup status cached | awk '{print $6 - $5 + $7}' ;;
    bcache*) grep -c dirty $B/state ;;
    kickcache-*) kickcache status --json | awk -F'[:,]' '/"dirty_bytes"/ {print $2 + 0}' ;;
    *) echo 0 ;;
  esac; }
# Waits for the cache's own work, too. The cleaner policy would reset the statistics of smq.
drain() { # [itself]
  case $cache-${1:-} in
    dm-cache-) dmsetup reload cached --table "$(dm_table cleaner)"; dmsetup suspend cached; dmsetup resume cached ;;
    dm-writecache-*) dmsetup message cached 0 flush ;;
    bcache*) echo 0 > $B/writeback_percent; echo 1 > $B/writeback_running; echo 0 > $B/writeback_delay ;;
    kickcache-*) kickcache drain v --wait > /tmp/drain 2>&1 || cat /tmp/drain ;;
  esac
  i=0; while [ $i -lt 300 ] && [ "$(dirty)" != 0 ]; do sleep 1; i=$((i + 1)); done
  case $cache in bcache*) echo 10 > $B/writeback_percent; echo 30 > $B/writeback_delay ;; esac
  [ "$(dirty)" = 0 ] || echo "duel: $cache is still dirty after 300 s: $(dirty)"; }
count() { awk '{printf "{\"reads\":%s,\"read_sectors\":%s,\"writes\":%s,\"write_sectors\":%s,\"flushes\":%s}", $1, $3, $5, $7, $16}' "/sys/block/${1##*/}/stat"; }
counts() { printf '{"hdd":%s,"ssd":%s,"ticks":%s,"uptime":%s}' "$(count "$HDD")" "$(count "$SSD")" \
  "$(awk '/^cpu /{print $2 + $3 + $4 + $7 + $8}' /proc/stat)" "$(cut -d' ' -f1 /proc/uptime)"; }
# The status of the cache, for readers of the JSON.
says() {
  case $cache in
    dm-*) dmsetup status cached | awk '{printf "{\"status\":\"%s\"}", $0}' ;;
    kickcache-*) kickcache status --json | tr -d '\n' ;;
    *) printf null ;;
  esac; }
minified() { tr -d '\n' < "$1"; }
