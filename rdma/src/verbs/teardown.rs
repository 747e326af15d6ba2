//! Giving back what devices have lent before the process ends.
//!
//! A process that ends with connections alive can leave Thunderbolt ports down, and protection
//! domains lost until the next boot. Who drops its values gives them back; here is for the ends at
//! which nothing is dropped: `exit`, and the signals that ask a process to end. What is alive is
//! [`Held`], so that it can be let go of from outside: queue pairs, completion queues, memory
//! regions, protection domains and devices, in the order in which they hold each other.

use std::{
    ffi::c_int,
    io::{PipeReader, PipeWriter, Read, pipe},
    mem,
    os::fd::AsRawFd,
    process, ptr,
    sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError, TryLockError, Weak, mpsc},
    thread,
    time::{Duration, Instant},
};

/// The signals that ask a process to end.
const SIGNALS: [c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
/// How long an end may wait for devices; a driver that hangs is left as it is.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks whether a value is in use.
const MOMENT: Duration = Duration::from_millis(1);

/// What is to be let go of.
static HELD: Mutex<Registry> = Mutex::new(Registry { is_over: false, values: Vec::new() });
/// Where signals are told, and the process that listens there.
static BELL: OnceLock<(PipeWriter, u32)> = OnceLock::new();

#[derive(Debug)]
struct Registry {
    // Nothing is held any more.
    is_over: bool,
    values: Vec<Weak<dyn LetGo>>,
}

/// A value of which this process lets go before it ends. From then on there is none: who uses it
/// finds silence, as of a peer that is gone.
#[derive(Debug)]
pub(crate) struct Held<T>(Arc<Mutex<Option<T>>>);

impl<T> Clone for Held<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Send + 'static> Held<T> {
    pub(crate) fn new(value: T) -> Self {
        let value = Arc::new(Mutex::new(Some(value)));
        let mut registry = lock(&HELD);
        if registry.is_over {
            *lock(&value) = None;
            return Self(value);
        }
        registry.values.retain(|value| value.strong_count() > 0);
        let weak: Weak<Mutex<Option<T>>> = Arc::downgrade(&value);
        registry.values.push(weak);
        Self(value)
    }

    /// Does something with the value; `None` where it was let go of.
    #[inline]
    pub(crate) fn with<R>(&self, use_it: impl FnOnce(&mut T) -> R) -> Option<R> {
        lock(&self.0).as_mut().map(use_it)
    }

    /// The value, to be held otherwise.
    pub(crate) fn take(&self) -> Option<T> {
        lock(&self.0).take()
    }
}

/// What can be let go of, whatever it is.
trait LetGo: Send + Sync {
    /// Drops what is inside; `false` while somebody uses it.
    fn try_let_go(&self) -> bool;
}

impl std::fmt::Debug for dyn LetGo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Held")
    }
}

impl<T: Send> LetGo for Mutex<Option<T>> {
    fn try_let_go(&self) -> bool {
        let value = match self.try_lock() {
            Ok(mut value) => value.take(),
            Err(TryLockError::Poisoned(value)) => value.into_inner().take(),
            Err(TryLockError::WouldBlock) => return false,
        };
        drop(value);
        true
    }
}

/// Lets go of every device: their connections end, and whoever is reached by them is as good as
/// silent. Returns when that is done, or after a second.
///
/// It happens by itself when the process exits, and when it is asked to end by `SIGTERM`, `SIGINT`
/// or `SIGHUP` of which it did nothing by the time the first device was opened. A program that
/// handles those signals itself calls this before it ends by one, unless it ends by
/// [`exit`](process::exit) or drops its cluster.
pub fn teardown() {
    if lock(&HELD).values.is_empty() || BELL.get().is_some_and(|(_, owner)| *owner != process::id())
    {
        // Nothing was opened, or it was by the process of which this one is a copy.
        return;
    }
    // By another thread: a driver may hang.
    let (done, is_done) = mpsc::channel();
    let work = thread::Builder::new().spawn(move || {
        let_go_of_all(Instant::now() + PATIENCE);
        // Who gave up hearing of it needs it no more.
        _ = done.send(());
    });
    match work {
        Ok(_) => _ = is_done.recv_timeout(PATIENCE),
        Err(_) => let_go_of_all(Instant::now() + PATIENCE),
    }
}

fn let_go_of_all(deadline: Instant) {
    let mut registry = lock(&HELD);
    registry.is_over = true;
    let mut values = mem::take(&mut registry.values);
    drop(registry);
    while Instant::now() < deadline {
        values.retain(|value| value.upgrade().is_some_and(|value| !value.try_let_go()));
        if values.is_empty() {
            return;
        }
        thread::sleep(MOMENT);
    }
}

/// Sees to it that this process lets go of its devices whenever it can; to be called when it has
/// opened one.
pub(super) fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        // SAFETY: the function may be called at any exit: it expects nothing. Where there is no
        // room for it, exits are as they were.
        _ = unsafe { libc::atexit(at_exit) };
        let Ok((reader, writer)) = pipe() else { return };
        let listener = thread::Builder::new().name("pangea-teardown".to_owned());
        // Without a thread that listens, signals stay as they are.
        if listener.spawn(move || listen(reader)).is_ok()
            && BELL.set((writer, process::id())).is_ok()
        {
            SIGNALS.into_iter().for_each(catch);
        }
    });
}

extern "C" fn at_exit() {
    teardown();
}

/// Has a signal told to who listens, unless the program does something of its own about it.
fn catch(signal: c_int) {
    if handler_of(signal) != Some(libc::SIG_DFL) {
        return;
    }
    // SAFETY: all zero is a valid value: no flags, and no signals.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = on_signal as extern "C" fn(c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the action lives during the call, and its handler does only what a handler may.
    _ = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
}

/// What is done about a signal.
fn handler_of(signal: c_int) -> Option<libc::sighandler_t> {
    // SAFETY: all zero is a valid value.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: the action lives during the call, which changes nothing else.
    let returned = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
    (returned == 0).then_some(action.sa_sigaction)
}

/// Runs wherever a thread was interrupted: it allocates nothing, takes no lock, and calls only what
/// may be called there.
extern "C" fn on_signal(signal: c_int) {
    // A load: who sets it has done so before this function was installed.
    let Some((bell, owner)) = BELL.get() else { return };
    if *owner != process::id() {
        // A copy of the process, which has no thread that listens, and shares the pipe.
        end_by(signal);
        return;
    }
    let byte = signal.to_ne_bytes();
    // SAFETY: `write` may be called by a handler, and the bytes live during the call. It neither
    // waits nor fails, so that it leaves the error number alone: the pipe has room for thousands of
    // signals, of which the first is the last, and its other end is open while the process lives.
    _ = unsafe { libc::write(bell.as_raw_fd(), byte.as_ptr().cast(), byte.len()) };
}

/// Lets go of everything at the first signal, and ends the process by it.
fn listen(mut bell: PipeReader) {
    let mut byte = [0; size_of::<c_int>()];
    while bell.read_exact(&mut byte).is_ok() {
        let signal = c_int::from_ne_bytes(byte);
        // Not if the program has a handler by now, which passes signals on to this one.
        if handler_of(signal) == Some(on_signal as extern "C" fn(c_int) as libc::sighandler_t) {
            teardown();
            end_by(signal);
        }
    }
}

/// Has a signal do what it does to a process that does nothing about it.
fn end_by(signal: c_int) {
    // SAFETY: `signal` may be called by a handler, and the default is a valid one.
    _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: `raise` may be called by a handler; there, it takes effect when that returns.
    _ = unsafe { libc::raise(signal) };
}

/// What was left whole by a thread that panicked with it, as every step is.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_does_about_a_signal_is_left_as_it_is() {
        // SAFETY: to ignore is valid, and nothing here counts on this signal.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        prepare();
        assert_eq!(handler_of(libc::SIGHUP), Some(libc::SIG_IGN));
        let ours = on_signal as extern "C" fn(c_int) as libc::sighandler_t;
        assert_eq!(handler_of(libc::SIGTERM), Some(ours));
    }

    #[test]
    fn a_value_is_let_go_of_once_nobody_uses_it() {
        struct Device(Arc<Mutex<bool>>);
        impl Drop for Device {
            fn drop(&mut self) {
                *lock(&self.0) = true;
            }
        }
        let is_gone = Arc::new(Mutex::new(false));
        let held = Held::new(Device(is_gone.clone()));
        held.with(|_| assert!(!held.0.try_let_go())).expect("it is there");
        assert!(!*lock(&is_gone));
        assert!(held.clone().0.try_let_go());
        assert!(*lock(&is_gone), "although it is held");
        assert!(held.with(|_| ()).is_none());
    }
}
