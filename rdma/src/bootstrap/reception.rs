//! Where callers are let in: each is heard by a thread of its own, for seconds at most, so that who
//! says nothing, or nonsense, delays nobody.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    channel::Channel,
    noise::{self, Terms},
    timed::describe,
};
use crate::{Error, Result, descriptor};

/// How long a caller may take to shake hands and to say who it is: on a host that starts more than
/// it has cores for, seconds.
const HEARING: Duration = Duration::from_secs(5);
/// Callers that are heard at once; the system lets others wait.
const CALLERS_MAX: usize = 128;
/// How often whoever waits for callers may look at other things.
const TICK: Duration = Duration::from_millis(5);

/// Somebody who has the key, and what it said first.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) channel: Channel,
    pub(super) message: Vec<u8>,
}

/// A caller that is let in, or why one is not.
type Heard = Result<Caller, String>;

/// Sockets that listen, and the callers that are being heard.
#[derive(Debug)]
pub(super) struct Reception {
    listeners: Vec<TcpListener>,
    hearing: Arc<Hearing>,
    heard: Receiver<Heard>,
    sender: Sender<Heard>,
    woken: UnixStream,
}

/// What the threads that hear callers share.
#[derive(Debug)]
struct Hearing {
    terms: Terms,
    // Bytes of the longest first message.
    len_max: usize,
    waker: Waker,
}

/// Ends the moment for which a [`Reception`] waits.
#[derive(Clone, Debug)]
pub(super) struct Waker(Arc<UnixStream>);

impl Waker {
    pub(super) fn wake(&self) {
        // A full socket wakes as well as one byte.
        _ = (&*self.0).write(&[0]);
    }
}

impl Reception {
    /// Hears who comes to `listeners`, and first says up to `len_max` bytes.
    pub(super) fn new(listeners: Vec<TcpListener>, terms: Terms, len_max: usize) -> Result<Self> {
        for listener in &listeners {
            let blocking = listener.set_nonblocking(true);
            blocking.map_err(Error::os("setting a socket not to block"))?;
        }
        let (waker, woken) = UnixStream::pair().map_err(Error::os("socketpair"))?;
        let blocking = woken.set_nonblocking(true).and_then(|()| waker.set_nonblocking(true));
        blocking.map_err(Error::os("setting a socket not to block"))?;
        descriptor::no_signal(&waker);
        let (sender, heard) = mpsc::channel();
        let waker = Waker(Arc::new(waker));
        let hearing = Arc::new(Hearing { terms, len_max, waker });
        Ok(Self { listeners, hearing, heard, sender, woken })
    }

    /// Where callers come to.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Waits a moment for a caller, or until it is woken.
    pub(super) fn next(&self) -> Option<Heard> {
        if let Ok(heard) = self.heard.try_recv() {
            return Some(heard);
        }
        let mut polled = vec![descriptor::input(&self.woken)];
        // With as many callers as can be heard, the next ones are left to wait.
        if Arc::strong_count(&self.hearing) <= CALLERS_MAX {
            polled.extend(self.listeners.iter().map(descriptor::input));
        }
        if !descriptor::await_input(&mut polled, Some(TICK)) {
            return None;
        }
        for (listener, _) in
            self.listeners.iter().zip(&polled[1..]).filter(|(_, polled)| polled.revents != 0)
        {
            // A caller that has gone again, or one for whom no descriptor is left.
            let Ok((stream, address)) = listener.accept() else { continue };
            self.hear(stream, address);
        }
        // As many bytes as there are: each stands for a caller that is taken from the queue.
        _ = (&self.woken).read(&mut [0; CALLERS_MAX]);
        self.heard.try_recv().ok()
    }

    /// For others who have something to tell whoever waits here.
    pub(super) fn waker(&self) -> Waker {
        self.hearing.waker.clone()
    }

    fn hear(&self, stream: TcpStream, address: SocketAddr) {
        // On macOS it has the listener's mode.
        let Ok(()) = stream.set_nonblocking(false) else { return };
        let deadline = Instant::now() + HEARING;
        let (hearing, sender) = (self.hearing.clone(), self.sender.clone());
        let hear = move || {
            let caller = noise::answer(stream, &hearing.terms, deadline).and_then(|mut channel| {
                let message = channel.receive(hearing.len_max, deadline)?;
                Ok(Caller { channel, message })
            });
            let caller = caller.map_err(|error| format!("{address}: {}", describe(&error)));
            // Nobody listens any more once the meeting is over.
            if sender.send(caller).is_ok() {
                hearing.waker.wake();
            }
        };
        // Without a thread the caller is dropped, and calls again.
        _ = thread::Builder::new().name("pangea hearing".to_owned()).spawn(hear);
    }
}
