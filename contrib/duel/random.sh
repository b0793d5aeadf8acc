# In the guest: the same fio work on each cache. Settings: CASES (cache:data:start:rw, commas between; data in sizes of the
# cache, start cold or stale), READS (of both jobs), SEED, STEPS (1; with more, requests move from one hot set to another,
# a larger part of them in each step).
: "${READS:=80000}" "${SEED:=1}" "${STEPS:=1}"

# Blocks that nothing will ask for again, 1.25 times the cache: written, written back, and read twice.
stale() {
  for pass in randwrite randread randread; do
    fio --eta=never --name=stale --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=8 --rw=$pass --bs=64k --offset=3500m --size=$((CACHE_MB * 5 / 4))m --output=/tmp/stale || cat /tmp/stale
    drain itself; done; sleep 2; }

load() { # DATA RW: reads or writes of 4 KiB, two jobs of depth 8, zipf 1.2
  half=$((CACHE_MB * $1 / 2)); rw=$2; rm -f /tmp/fio.*
  # zipf depends on the name of the file: one name for all
  rm -f /dev/duel; ln -s "$DEV" /dev/duel; step=0
  while [ $step -lt "$STEPS" ]; do new=0; [ "$STEPS" = 1 ] || new=$((READS / STEPS * step / (STEPS - 1))); old=$((READS / STEPS - new)); set --
    [ $old = 0 ] || set -- --name=duel --randseed="$SEED" --io_size=$((old / 2 * 4))k
    [ $new = 0 ] || set -- "$@" --name=duel --randseed=$((SEED + 1)) --io_size=$((new / 2 * 4))k
    depth=8; [ $old = 0 ] || [ $new = 0 ] || depth=4
    fio --eta=never --name=global --filename=/dev/duel --direct=1 --ioengine=libaio --iodepth=$depth --numjobs=2 --rw="$rw" --bs=4k --random_distribution=zipf:1.2 \
      --size=${half}m --offset_increment=${half}m --norandommap --group_reporting --output-format=json --output="/tmp/fio.$step" "$@" || cat "/tmp/fio.$step"
    step=$((step + 1)); done; }

for case in $(echo "$CASES" | tr , ' '); do
  name=${case%%:*}; rest=${case#*:}; data=${rest%%:*}; rest=${rest#*:}; start=${rest%%:*}; rw=${rest#*:}
  up "$name"; [ "$start" = cold ] || stale
  before=$(counts); load "$data" "$rw"; sleep 2; after=$(counts); drained=null; said=$(says)
  case $rw in *write) drain; sleep 1; drained=$(counts) ;; esac
  printf 'RESULT {"cache":"%s","data":%s,"start":"%s","rw":"%s","before":%s,"after":%s,"drained":%s,"says":%s,"fio":[' "$name" "$data" "$start" "$rw" "$before" "$after" "$drained" "$said"
  step=0; while [ $step -lt "$STEPS" ]; do [ $step = 0 ] || printf ,; minified "/tmp/fio.$step"; step=$((step + 1)); done; echo ']}'
  down; done
