# In the guest: the same fio work on each cache. Settings: CASES (cache:data:start:rw, commas between; data in sizes of the
# cache, start cold or stale), READS (of both jobs), SEED, STEPS (1; with more, requests move from one hot set to another,
# a larger share of the requests in each step).
: "${READS:=80000}" "${SEED:=1}" "${STEPS:=1}"

# Fills the cache with blocks that are not used again, 1.25 times its size: written, written back, and read twice.
stale() {
  for pass in randwrite randread randread; do
    fio --eta=never --name=stale --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=8 --rw=$pass --bs=64k --offset=3500m --size=$((CACHE_MB * 5 / 4))m --output=/tmp/stale || cat /tmp/stale
    drain itself; done; sleep 2; }

half() { echo $((CACHE_MB * $1 / 2)); }

# Reads or writes of 4 KiB by two jobs of depth 8, each on its half of the data. The name of the file decides
# the places of the hot blocks of zipf: all have one name.
requests() { log=/tmp/fio.$1; shift; fio --eta=never --name=duel --direct=1 --ioengine=libaio --iodepth=8 --group_reporting --output-format=json --output="$log" "$@" || cat "$log"; }

load() { # DATA RW
  file=/dev/duel; [ "$SEED" = 1 ] || file=$file$SEED
  rm -f /tmp/fio.* $file; ln -s "$DEV" $file
  [ "$STEPS" = 1 ] || { steps "$1" "$2"; return; }
  requests 0 --filename=$file --numjobs=2 --rw="$2" --bs=4k --random_distribution=zipf:1.2 --size="$(half "$1")m" --offset_increment="$(half "$1")m" --norandommap --io_size=$((READS / 2 * 4))k
}

# The addresses of a job's requests, one per line; fio repeats them for the same NAME.
drawn() { # NAME JOB DATA
  fio --eta=never --name=drawn --filename="/tmp/$1$2.$SEED" --ioengine=null --rw=randread --bs=4k --random_distribution=zipf:1.2 --size="$(half "$3")m" --offset=$((($2 - 1) * $(half "$3")))m --norandommap \
    --io_size=$((READS / 2 * 4))k --write_iolog=/tmp/drawn --output=/dev/null; awk '/ read /{print $(NF - 1)}' /tmp/drawn; rm -f /tmp/drawn; }

# Each step continues at the end of the previous step, in both sets.
steps() { # DATA RW
  for job in 1 2; do
    drawn old "$job" "$1" >/tmp/old; drawn new "$job" "$1" >/tmp/new
    awk -v steps="$STEPS" -v count=$((READS / STEPS / 2)) -v file=$file -v verb="${2#rand}" -v to="/tmp/step.$job." 'BEGIN { for (step = 0; step < steps; step++) {
      out = to step; print "fio version 2 iolog\n" file " add\n" file " open" >out; new = int(count * step / (steps - 1)); due = 0
      for (i = 0; i < count; i++) { from = "/tmp/old"; due += new; if (due >= count) { due -= count; from = "/tmp/new" } getline place <from; print file, verb, place, 4096 >out }
      print file " close" >out; close(out) } }'; done
  step=0; while [ $step -lt "$STEPS" ]; do
    requests $step --replay_no_stall=1 --read_iolog="/tmp/step.1.$step" --name=duel2 --direct=1 --ioengine=libaio --iodepth=8 --replay_no_stall=1 --read_iolog="/tmp/step.2.$step"
    step=$((step + 1)); done; }

for case in $(echo "$CASES" | tr , ' '); do
  name=${case%%:*}; rest=${case#*:}; data=${rest%%:*}; rest=${rest#*:}; start=${rest%%:*}; rw=${rest#*:}
  up "$name"; [ "$start" = cold ] || stale
  before=$(counts); load "$data" "$rw"; sleep 2; after=$(counts); drained=null; said=$(says)
  case $rw in *write) drain; sleep 1; drained=$(counts) ;; esac
  printf 'RESULT {"cache":"%s","data":%s,"start":"%s","rw":"%s","before":%s,"after":%s,"drained":%s,"says":%s,"fio":[' "$name" "$data" "$start" "$rw" "$before" "$after" "$drained" "$said"
  step=0; while [ $step -lt "$STEPS" ]; do [ $step = 0 ] || printf ,; minified "/tmp/fio.$step"; step=$((step + 1)); done; echo ']}'
  down; done
