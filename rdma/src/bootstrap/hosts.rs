//! Nodes of several hosts meet at a coordinator, then connect to each other.
//!
//! The coordinator only brings them together: it lets in who has the key and belongs to the job,
//! and hands to all what each has said ([`Coordinator`]). By it the nodes tell each other where
//! they listen, and where those of one host meet. Whatever keeps one of them from joining is told
//! to all at once, so that none waits for it in vain.
//!
//! ```text
//! hello     who the node is and where it listens              all learn the cards of all
//! letter    the first node of each host names a socket        all learn where their host meets
//! reach     whether the node can get there                    all learn who meets there
//!           the nodes of a host meet, every two nodes connect
//! verdict   the node has met the others                       the meeting is over
//! ```

mod coordinator;
mod guest;
mod guests;
mod invitation;
mod mesh;
mod message;
mod neighbours;

use std::{sync::Mutex, thread, time::Instant};

#[doc(hidden)]
pub use self::message::{decode_any, samples};
pub use self::{
    coordinator::Coordinator,
    invitation::{ADDRESSES, COORDINATOR, HOST, Invitation, TRUSTED_NETWORK},
};
use super::{Build, Meeting};
use crate::{Error, Result};

/// Goes to the meeting, and returns when every two nodes are connected. `build` is what all
/// nodes must agree on.
pub fn join(invitation: &Invitation, build: &Build, deadline: Instant) -> Result<Meeting> {
    if invitation.has_launcher || invitation.node.index() != 0 {
        return guest::attend(invitation, build, deadline);
    }
    let coordinator = Coordinator::of_node(invitation)?;
    let has_failed = Mutex::new(false);
    let serve = || coordinator.serve(deadline, &|| has_failed.lock().is_ok_and(|failed| *failed));
    thread::scope(|scope| {
        let serving = thread::Builder::new().name("pangea coordinator".to_owned());
        let serving = serving.spawn_scoped(scope, serve);
        let serving = serving.map_err(Error::os("starting a thread"))?;
        let met = guest::attend(invitation, build, deadline);
        if let (Err(_), Ok(mut failed)) = (&met, has_failed.lock()) {
            *failed = true;
        }
        // Its ends of the lifelines are of no use: nobody asks for losses.
        _ = serving.join();
        met
    })
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests;
