//! Frames over a Unix socket, each with at most one file descriptor beside it.

#[cfg_attr(target_os = "linux", path = "descriptor/linux.rs")]
#[cfg_attr(target_os = "macos", path = "descriptor/macos.rs")]
mod os;

use std::{
    io::{self, Write},
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    ptr,
    time::Duration,
};

/// Room for the control message that carries one descriptor, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Bytes of a control message with one descriptor.
const DESCRIPTOR_LEN: u32 = RawFd::BITS / 8;

/// Sends all of `bytes`, and `descriptor` with the first of them.
pub(crate) fn send(
    socket: &UnixStream,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let Some(descriptor) = descriptor else { return (&*socket).write_all(bytes) };
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut message = header(&mut part, &mut control);
    // SAFETY: a pure function of its argument.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(DESCRIPTOR_LEN) } as _;
    // SAFETY: `message` names `control`, which has room for a header (64 bytes).
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    let head = libc::cmsghdr {
        // SAFETY: a pure function of its argument.
        cmsg_len: unsafe { libc::CMSG_LEN(DESCRIPTOR_LEN) } as _,
        cmsg_level: libc::SOL_SOCKET,
        cmsg_type: libc::SCM_RIGHTS,
    };
    // SAFETY: `first` is the aligned start of `control`, not null as there is room for a header.
    unsafe { first.write(head) };
    // SAFETY: `first` is a valid header; its data lies inside `control`.
    let data = unsafe { libc::CMSG_DATA(first) };
    // SAFETY: `data` has room for a descriptor (CMSG_SPACE above is less than 64).
    unsafe { data.cast::<RawFd>().write_unaligned(descriptor.as_raw_fd()) };
    let sent = retry(|| {
        // SAFETY: `message`, and all that it names, live during the call.
        unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, os::NO_SIGNAL) }
    })?;
    (&*socket).write_all(&bytes[sent..])
}

/// Receives some bytes into `buffer`, and a descriptor if one came with them; zero bytes at the
/// end of the stream. With the flag `MSG_DONTWAIT` it does not block.
pub(crate) fn receive(
    socket: &UnixStream,
    buffer: &mut [u8],
    flags: libc::c_int,
) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut message = header(&mut part, &mut control);
    let received = retry(|| {
        // SAFETY: `message`, and all that it names, live during the call; the kernel writes at most
        // the lengths given there.
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, os::CLOSE_ON_EXEC | flags) }
    })?;
    let mut descriptors = descriptors_of(&message);
    if descriptors.len() > 1 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "more descriptors than one"));
    }
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    Ok((received, descriptors.pop()))
}

/// Sends some of `parts`, one after the other, without blocking; returns how many bytes.
///
/// # Safety
///
/// The parts are mapped during the call.
pub(crate) unsafe fn send_parts(socket: RawFd, parts: &[libc::iovec]) -> io::Result<usize> {
    let message = parts_of(parts);
    let flags = os::NO_SIGNAL | libc::MSG_DONTWAIT;
    retry(|| {
        if let [only] = parts {
            // SAFETY: the caller vouches for the part.
            return unsafe { libc::send(socket, only.iov_base, only.iov_len, flags) };
        }
        // SAFETY: `message` lives during the call, and what it names does too (the caller).
        unsafe { libc::sendmsg(socket, &raw const message, flags) }
    })
}

/// Receives into `parts`, one after the other, without blocking; returns how many bytes.
///
/// # Safety
///
/// The parts are mapped during the call, and may be written as by another process.
pub(crate) unsafe fn receive_parts(socket: RawFd, parts: &[libc::iovec]) -> io::Result<usize> {
    let mut message = parts_of(parts);
    retry(|| {
        if let [only] = parts {
            // SAFETY: the caller vouches for the part.
            return unsafe { libc::recv(socket, only.iov_base, only.iov_len, libc::MSG_DONTWAIT) };
        }
        // SAFETY: `message` lives during the call, and what it names does too (the caller).
        unsafe { libc::recvmsg(socket, &raw mut message, libc::MSG_DONTWAIT) }
    })
}

fn parts_of(parts: &[libc::iovec]) -> libc::msghdr {
    // SAFETY: all zero is a valid `msghdr`: null pointers and zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_ptr().cast_mut();
    message.msg_iovlen = parts.len() as _;
    message
}

/// Receives exactly `buffer`, and the descriptor that came with it.
pub(crate) fn receive_exact(socket: &UnixStream, buffer: &mut [u8]) -> io::Result<Option<OwnedFd>> {
    let mut descriptor = None;
    let mut filled = 0;
    while filled < buffer.len() {
        let (count, passed) = receive(socket, &mut buffer[filled..], 0)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += count;
        descriptor = descriptor.or(passed);
    }
    Ok(descriptor)
}

/// A socket to be waited for by [`await_input`].
pub(crate) fn input(socket: &impl AsRawFd) -> libc::pollfd {
    libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// Blocks until one of `sockets` has something to say, which its `revents` tell; `false` where the
/// time is up, or a signal came between.
pub(crate) fn await_input(sockets: &mut [libc::pollfd], timeout: Option<Duration>) -> bool {
    let count = libc::nfds_t::try_from(sockets.len()).expect("a node has few peers");
    let timeout = timeout.map_or(-1, |time| i32::try_from(time.as_millis()).unwrap_or(i32::MAX));
    // SAFETY: `sockets` is `count` entries, which the kernel fills during the call.
    unsafe { libc::poll(sockets.as_mut_ptr(), count, timeout) > 0 }
}

/// The descriptors that came with a message, all of which are this process's now.
fn descriptors_of(message: &libc::msghdr) -> Vec<OwnedFd> {
    // SAFETY: `message` was filled by the kernel and names a live control buffer.
    let first = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: `first` is null or a header inside the control buffer.
    let Some(head) = (unsafe { first.as_ref() }) else { return Vec::new() };
    if head.cmsg_level != libc::SOL_SOCKET || head.cmsg_type != libc::SCM_RIGHTS {
        return Vec::new();
    }
    // SAFETY: `first` is a valid header.
    let data = unsafe { libc::CMSG_DATA(first) }.cast::<RawFd>();
    // SAFETY: a pure function of its argument.
    let empty = unsafe { libc::CMSG_LEN(0) } as usize;
    #[allow(clippy::unnecessary_cast, reason = "macOS has 32 bits for it")]
    let count = (head.cmsg_len as usize).saturating_sub(empty) / size_of::<RawFd>();
    let adopt = |index| {
        // SAFETY: the header's length, which the kernel wrote, says that there are `count`.
        let descriptor = unsafe { data.add(index) };
        // SAFETY: as above; the control buffer need not be aligned for it.
        let descriptor = unsafe { descriptor.read_unaligned() };
        // SAFETY: the kernel has just made this descriptor for this process; nobody else knows it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        close_on_exec(&descriptor);
        descriptor
    };
    (0..count).map(adopt).collect()
}

fn header(part: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: all zero is a valid `msghdr`: null pointers and zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = ptr::null_mut();
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    message
}

/// Repeats a call that a signal interrupted.
fn retry(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(count) = usize::try_from(call()) {
            return Ok(count);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Makes a closed peer of `socket` an error, not a signal, for whoever holds it.
pub(crate) fn no_signal(socket: &impl AsRawFd) {
    os::no_signal(socket.as_raw_fd());
}

/// Keeps a received descriptor out of programs that this one starts.
fn close_on_exec(descriptor: &OwnedFd) {
    // SAFETY: the descriptor is open; no memory is touched.
    unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{fs::File, io::Read, os::fd::AsFd};

    use super::*;

    #[test]
    fn a_descriptor_arrives_with_its_bytes() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = io::pipe().unwrap();
        send(&ours, b"sixteen bytes...", Some(writer.as_fd())).unwrap();
        send(&ours, b"no file", None).unwrap();
        writer.flush().unwrap();
        drop(writer);
        let mut bytes = [0; 16];
        let passed = receive_exact(&theirs, &mut bytes).unwrap().expect("a descriptor was sent");
        assert_eq!(&bytes, b"sixteen bytes...");
        File::from(passed).write_all(b"through the pipe").unwrap();
        let mut seen = String::new();
        reader.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "through the pipe");
        let mut bytes = [0; 7];
        assert!(receive_exact(&theirs, &mut bytes).unwrap().is_none());
        drop(ours);
        let error = receive_exact(&theirs, &mut bytes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
