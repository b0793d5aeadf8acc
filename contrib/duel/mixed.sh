# In the guest: paced loads of reads and writes, each on an empty cache. The job files are in /tmp, from scripts/duel.
# Settings: CACHES and SIZES (MiB, one for each job file), both with commas between.
alone() { # DEVICE: the median of single reads, in ns
  fio --eta=never --name=alone --filename="$1" --direct=1 --ioengine=libaio --rw=randread --bs=4k --time_based --runtime=5 --output-format=json --output=/tmp/fio || cat /tmp/fio
  awk -F'[:,]' '/"50.000000"/ {print $2 + 0; exit}' /tmp/fio; }
printf 'RESULT {"alone":{"ssd":%s,"hdd":%s}}\n' "$(alone "$SSD")" "$(alone "$HDD")"
number=0
for CACHE_MB in $(echo "$SIZES" | tr , ' '); do
  for name in $(echo "$CACHES" | tr , ' '); do
    up "$name"
    before=$(counts)
    { echo "[global]"; echo "filename=$DEV"; sed 1d "/tmp/job-$number"; } > /tmp/job
    fio --eta=never --output-format=json --output=/tmp/fio /tmp/job || cat /tmp/fio
    after=$(counts)
    printf 'RESULT {"cache":"%s","case":%s,"before":%s,"after":%s,"says":%s,"fio":[%s]}\n' "$cache" "$number" "$before" "$after" "$(says)" "$(minified /tmp/fio)"
    down; done
  number=$((number + 1)); done
