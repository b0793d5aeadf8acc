# In the guest: a clone of a repository from a third disk, then `git grep` again and again with the page cache dropped.
# Settings: CACHES (commas between), GREPS.
: "${GREPS:=12}"
REPOSITORY=$(disk GIT); mkdir -p /repository; mount -t ext4 -o ro "$REPOSITORY" /repository || exit 1
export GIT_CONFIG_NOSYSTEM=1; printf '[safe]\n\tdirectory = *\n' > "$HOME/.gitconfig"
# The command that a clone runs at the other end.
ln -sf git /bin/git-upload-pack
timed() { # NAME COMMAND...
  row=$1; shift; sync; echo 3 > /proc/sys/vm/drop_caches; before=$(counts)
  "$@" > /tmp/out 2>&1 || { echo "duel: $row failed"; cat /tmp/out; exit 1; }
  case $row in clone) sync ;; esac; after=$(counts)
  printf 'RESULT {"cache":"%s","row":"%s","before":%s,"after":%s,"says":%s}\n' "$cache" "$row" "$before" "$after" "$(says)"; }
for name in $(echo "$CACHES" | tr , ' '); do
  up "$name"; mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$DEV" || exit 1; mount -t ext4 "$DEV" /mnt || exit 1
  timed clone git clone -q /repository/repository.git /mnt/work
  i=1; while [ $i -le "$GREPS" ]; do timed "grep $i" git -C /mnt/work grep -c needle; i=$((i + 1)); done
  umount /mnt; down; done
