# In the guest: the six workloads of the cloud table, one after the other on the same cache, which then writes back for a while.
# Settings: CACHES (commas between), SECONDS_EACH, REST (seconds between two), DATA_MB.
: "${SECONDS_EACH:=20}" "${REST:=20}" "${DATA_MB:=256}"
play() { # NAME FIO-ARGUMENTS
  row=$1; shift
  before=$(counts)
  fio --eta=never --name=cloud --filename="$DEV" --direct=1 --ioengine=libaio --size="${DATA_MB}m" --time_based --runtime="$SECONDS_EACH" --group_reporting --output-format=json --output=/tmp/fio "$@" || cat /tmp/fio
  after=$(counts)
  printf 'RESULT {"cache":"%s","row":"%s","before":%s,"after":%s,"says":%s,"fio":[%s]}\n' "$cache" "$row" "$before" "$after" "$(says)" "$(minified /tmp/fio)"
  sleep "$REST"; }
for name in $(echo "$CACHES" | tr , ' '); do
  up "$name"
  # The file is laid out first, as fio does on a file system.
  fio --eta=never --name=lay --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=16 --rw=write --bs=1m --size="${DATA_MB}m" --output=/tmp/lay || cat /tmp/lay
  sleep "$REST"
  play "random write, QD 128" --rw=randwrite --bs=4k --iodepth=128
  play "random read, QD 128" --rw=randread --bs=4k --iodepth=128
  play "sequential write, 1 MiB, QD 64" --rw=write --bs=1m --iodepth=64
  play "sequential read, 1 MiB, QD 64" --rw=read --bs=1m --iodepth=64
  play "random write, QD 1" --rw=randwrite --bs=4k --iodepth=1
  play "random read, 2 jobs, QD 1" --rw=randread --bs=4k --iodepth=1 --numjobs=2
  down; done
