//! Names of the errors that devices give.

/// The name of an errno, such as `EIO`; the number of an errno without a known name.
pub fn errno_name(errno: i32) -> String {
    let known = NAMES.iter().find(|(number, _)| *number == errno);
    known.map_or_else(|| format!("errno {errno}"), |(_, name)| (*name).into())
}

/// The system's text for an errno, without its number.
pub fn errno_text(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    match text.rsplit_once(" (os error") {
        Some((text, _)) => text.into(),
        None => text,
    }
}

const NAMES: [(i32, &str); 26] = [
    (libc::EIO, "EIO"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::ENODEV, "ENODEV"),
    (libc::ENXIO, "ENXIO"),
    (libc::EROFS, "EROFS"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
    (libc::ETIME, "ETIME"),
    (libc::ENODATA, "ENODATA"),
    (libc::EILSEQ, "EILSEQ"),
    (libc::EREMOTEIO, "EREMOTEIO"),
    (libc::EBADE, "EBADE"),
    (libc::ENOLINK, "ENOLINK"),
    (libc::ENOMEDIUM, "ENOMEDIUM"),
    (libc::ENOTCONN, "ENOTCONN"),
    (libc::ESHUTDOWN, "ESHUTDOWN"),
    (libc::ESTALE, "ESTALE"),
    (libc::EDQUOT, "EDQUOT"),
    (libc::EFBIG, "EFBIG"),
    (libc::EPERM, "EPERM"),
    (libc::EACCES, "EACCES"),
    (libc::EINVAL, "EINVAL"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::EBUSY, "EBUSY"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::ENOSYS, "ENOSYS"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_name_and_a_text() {
        assert_eq!(
            (errno_name(libc::EIO), errno_text(libc::EIO)),
            ("EIO".into(), "Input/output error".into())
        );
        assert_eq!(errno_name(4000), "errno 4000");
    }
}
