use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::*;

fn refusal(path: &Path) -> String {
    BlockFile::open(path, AccessMode::ReadWrite, Emptiness::Refused).unwrap_err().to_string()
}

fn file(directory: &tempfile::TempDir, name: &str) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, vec![1; 10_000]).unwrap();
    path
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

#[test]
fn a_file_has_whole_sectors_and_an_identity() {
    let directory = directory();
    let path = file(&directory, "a");
    let device = BlockFile::open(&path, AccessMode::ReadWrite, Emptiness::Refused).unwrap();
    assert_eq!(device.size(), 10_000 / 512 * 512);
    assert_eq!(device.kind(), Kind::File);
    let canonical = std::fs::canonicalize(&path).unwrap();
    assert_eq!(device.identified().identity, format!("file:{}", canonical.display()));
}

#[test]
fn an_unsuitable_path_is_refused_by_its_name() {
    let directory = directory();
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let circle = directory.path().join("circle");
    std::os::unix::fs::symlink(&circle, &circle).unwrap();
    let empty = directory.path().join("empty");
    std::fs::write(&empty, [0; 511]).unwrap();
    let cases = [
        (directory.path().to_path_buf(), "is a directory"),
        (fifo, "is a pipe"),
        ("/dev/null".into(), "is a character device"),
        (circle, "symbolic links"),
        (directory.path().join("none"), "No such file"),
        (empty, "511 bytes"),
    ];
    for (path, expected) in cases {
        let found = refusal(&path);
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn a_second_opening_is_refused() {
    let directory = directory();
    let path = file(&directory, "a");
    let first = BlockFile::open(&path, AccessMode::ReadWrite, Emptiness::Refused).unwrap();
    assert!(refusal(&path).contains("in use"), "{}", refusal(&path));
    assert!(BlockFile::open(&path, AccessMode::ReadOnly, Emptiness::Refused).is_err());
    drop(first);
    let reader = BlockFile::open(&path, AccessMode::ReadOnly, Emptiness::Refused).unwrap();
    let other = BlockFile::open(&path, AccessMode::ReadOnly, Emptiness::Refused).unwrap();
    assert!(same_device(&reader, &other));
}

#[test]
fn a_lock_of_another_process_counts() {
    let directory = directory();
    let path = file(&directory, "a");
    let mut holder = Command::new("flock")
        .arg(&path)
        .args(["sh", "-c", "echo held; read line"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 4];
    io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut said).unwrap();
    let named = format!("in use by another process (process {}, flock: it holds a lock on it)", holder.id());
    let said = refusal(&path);
    assert!(said.contains(&named), "{said}");
    drop(holder.stdin.take());
    holder.wait().unwrap();
    BlockFile::open(&path, AccessMode::ReadWrite, Emptiness::Refused).unwrap();
}

#[test]
fn a_file_that_cannot_be_written_is_refused_for_writing() {
    if rustix::process::geteuid().is_root() {
        return eprintln!("skipped: root may write to everything");
    }
    let directory = directory();
    let path = file(&directory, "a");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    assert!(refusal(&path).contains("cannot be written"));
}

#[test]
fn a_lack_of_rights_names_user_and_path() {
    let denied = || io::Error::from_raw_os_error(libc::EACCES);
    let path = Path::new("/srv/disk");
    let told = [
        open_error(path, denied()),
        refused(path, AccessMode::ReadOnly, denied()),
        refused(path, AccessMode::ReadWrite, denied()),
    ];
    for error in told.map(|error| error.to_string()) {
        assert!(error.contains("/srv/disk") && error.contains(&own_user()), "{error}");
    }
    let by_monitor = io::Error::new(io::ErrorKind::PermissionDenied, "it is not in the configuration");
    assert_eq!(
        open_error(path, by_monitor).to_string(),
        "cannot open /srv/disk: it is not in the configuration"
    );
}

#[test]
fn links_to_one_file_are_the_same_device() {
    let directory = directory();
    let (first, second) = (file(&directory, "a"), file(&directory, "b"));
    let link = directory.path().join("link");
    std::fs::hard_link(&first, &link).unwrap();
    let open = |path: &Path| BlockFile::open(path, AccessMode::ReadOnly, Emptiness::Refused).unwrap();
    assert!(same_device(&open(&first), &open(&link)));
    assert!(check_different(&open(&first), &open(&second)).is_ok());
    let found = check_different(&open(&first), &open(&link)).unwrap_err().to_string();
    assert!(found.contains("same device"), "{found}");
}

#[test]
fn a_loop_device_is_the_same_as_its_file() {
    let directory = directory();
    let path = directory.path().join("image");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    let made = Command::new("losetup").args(["--show", "-f"]).arg(&path).output();
    let Some(made) = made.ok().filter(|made| made.status.success()) else {
        return eprintln!("skipped: loop devices cannot be made here (not root?)");
    };
    let device = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
    let other = loop_device(&["-f"], &path);
    let half = loop_device(&["-f", "-o", "524288"], &path);
    let open = |path: &Path| BlockFile::open(path, AccessMode::ReadOnly, Emptiness::Refused).unwrap();
    let (block, image, part) = (open(&device), open(&path), open(&half));
    let facts = (block.size(), block.kind(), same_device(&block, &image), same_device(&block, &part));
    drop((block, image, part));
    let distinct = check_distinct([device.as_path(), other.as_path()]);
    let block = BlockFile::open(&device, AccessMode::ReadWrite, Emptiness::Refused).unwrap();
    let again = [&device, &path, &other, &half].map(|path| refusal(path));
    drop(block);
    let image = BlockFile::open(&path, AccessMode::ReadWrite, Emptiness::Refused).unwrap();
    let below = [&device, &half].map(|path| refusal(path));
    drop(image);
    for device in [&device, &other, &half] {
        assert!(Command::new("losetup").arg("-d").arg(device).status().unwrap().success());
    }
    assert_eq!(facts, (1 << 20, Kind::Block, true, true));
    assert!(distinct.unwrap_err().to_string().contains("same device"));
    assert!(again.iter().chain(&below).all(|said| said.contains("in use")), "{again:?} {below:?}");
}

#[test]
fn parts_of_a_file_are_devices_of_their_own() {
    let directory = directory();
    let path = directory.path().join("image");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
        return eprintln!("skipped: loop devices cannot be made here (not root?)");
    }
    let first = loop_device(&["-f", "--sizelimit", "524288"], &path);
    let second = loop_device(&["-f", "-o", "524288"], &path);
    let opened =
        [&first, &second].map(|path| BlockFile::open(path, AccessMode::ReadWrite, Emptiness::Refused));
    let whole = refusal(&path);
    let distinct = check_distinct([first.as_path(), second.as_path()]);
    let are_open = opened.iter().all(Result::is_ok);
    drop(opened);
    for device in [&first, &second] {
        assert!(Command::new("losetup").arg("-d").arg(device).status().unwrap().success());
    }
    assert!(are_open && distinct.is_ok());
    assert!(whole.contains("in use"), "{whole}");
}

fn loop_device(flags: &[&str], path: &Path) -> PathBuf {
    let made = Command::new("losetup").arg("--show").args(flags).arg(path).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    PathBuf::from(String::from_utf8(made.stdout).unwrap().trim())
}
