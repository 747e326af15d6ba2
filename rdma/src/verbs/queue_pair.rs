//! A connection to one queue pair of a peer: a queue of sends and one of receives.

use std::{
    ffi::c_int,
    hash::{BuildHasher, RandomState},
    ptr::NonNull,
    sync::Arc,
};

use super::{
    completion_queue::CompletionQueue,
    device::{Context, Share, made, none},
    gid::Gid,
    ledger::Resource,
    library::Library,
    port::{Endpoint, Port, Wire},
    protection_domain::ProtectionDomain,
    sys,
};
use crate::{Error, Result};

/// The time a lost packet waits to be sent again is 4.096 us times 2 to the power of this: 67 ms.
const TIMEOUT: u8 = 14;
/// How often a packet is sent again before the peer is given up: soft-RoCE takes 7 for "forever".
const RETRIES: u8 = 6;

/// What a connection promises.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// RC: everything arrives, in order; reads, writes and atomics.
    Reliable,
    /// UC: what arrives is in order; sends only, as Thunderbolt has no more.
    Unreliable,
}

/// How much a queue pair holds.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Sends in flight.
    pub sends: u32,
    /// Receives posted.
    pub receives: u32,
    /// Bytes that a send may carry in itself, if the device can.
    pub inline_len: u32,
}

/// A connection, with its two queues. Every request in them names memory that the poster keeps
/// registered. When it is dropped, nothing in its queues touches memory any more.
#[derive(Debug)]
pub struct QueuePair {
    raw: NonNull<sys::ibv_qp>,
    // In this order: given back after the pair is gone.
    _shares: [Share; 2],
    // Held so that they outlive the pair.
    _completions: Arc<CompletionQueue>,
    domain: Arc<ProtectionDomain>,
    kind: Kind,
    inline_len: usize,
    first_packet: u32,
    source: Gid,
}

// SAFETY: the functions of the interface may be called from any thread, on any object.
unsafe impl Send for QueuePair {}
// SAFETY: as above, by several threads at once.
unsafe impl Sync for QueuePair {}

impl QueuePair {
    /// A pair that takes receives, and can be connected from the address numbered `place` of the
    /// port's list.
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        completions: &Arc<CompletionQueue>,
        kind: Kind,
        capacity: Capacity,
        place: usize,
    ) -> Result<Self> {
        let port = domain.port();
        let source = source(port, place)?;
        let frames = capacity.sends.saturating_add(capacity.receives);
        let context = port.context();
        let shares = [
            Share::take(context, Resource::QueuePair, 1)?,
            Share::take(context, Resource::Frame, frames)?,
        ];
        let (raw, inline_len) = create(domain, completions, kind, capacity)?;
        let first_packet = random_24_bits();
        let pair = Self {
            raw,
            _shares: shares,
            _completions: completions.clone(),
            domain: domain.clone(),
            kind,
            inline_len: inline_len as usize,
            first_packet,
            source,
        };
        pair.initialise()?;
        Ok(pair)
    }

    /// Bytes that a send may carry in itself.
    pub fn inline_len(&self) -> usize {
        self.inline_len
    }

    /// What the peer must know to connect.
    pub fn endpoint(&self) -> Endpoint {
        let port = self.domain.port();
        // SAFETY: the pair is alive; its number does not change.
        let queue_pair = unsafe { self.raw.as_ref() }.qp_num;
        Endpoint {
            queue_pair,
            first_packet: self.first_packet,
            lid: port.lid(),
            mtu: port.mtu(),
            reads_served: port.context().limits().reads_served,
            gid: self.source.bytes,
        }
    }

    /// Connects to `peer`. What the peer sends before is lost; so the two tell each other when they
    /// are connected, by other means, before either sends.
    pub fn connect(&self, peer: &Endpoint) -> Result {
        self.make_ready_to_receive(peer)?;
        self.make_ready_to_send(peer)
    }

    /// Posts a chain of at least one request to the send queue, with one doorbell.
    ///
    /// # Safety
    ///
    /// `first` is a chain of valid requests, which the driver reads during the call. The memory
    /// that they name stays registered, and is not used otherwise, until they have ended. There is
    /// room for them in the queue.
    pub unsafe fn post_sends(&self, first: *mut sys::ibv_send_wr) -> Result {
        let post = self.context().operation(|table| table.post_send, "post_send")?;
        let mut refused = none();
        // SAFETY: the pair is alive, and the caller vouches for the chain.
        let returned = unsafe { post(self.raw.as_ptr(), first, &raw mut refused) };
        self.check(returned, "posting a send")
    }

    /// Posts a receive.
    ///
    /// # Safety
    ///
    /// As for [`post_sends`](Self::post_sends).
    pub unsafe fn post_receive(&self, first: *mut sys::ibv_recv_wr) -> Result {
        let post = self.context().operation(|table| table.post_recv, "post_recv")?;
        let mut refused = none();
        // SAFETY: the pair is alive, and the caller vouches for the request.
        let returned = unsafe { post(self.raw.as_ptr(), first, &raw mut refused) };
        self.check(returned, "posting a receive")
    }

    fn initialise(&self) -> Result {
        let access = match self.kind {
            Kind::Reliable => {
                sys::IBV_ACCESS_REMOTE_READ
                    | sys::IBV_ACCESS_REMOTE_WRITE
                    | sys::IBV_ACCESS_REMOTE_ATOMIC
            }
            Kind::Unreliable => 0,
        };
        let attributes = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_INIT,
            port_num: self.domain.port().number(),
            qp_access_flags: access.cast_unsigned(),
            ..Default::default()
        };
        let mask = sys::IBV_QP_STATE
            | sys::IBV_QP_PKEY_INDEX
            | sys::IBV_QP_PORT
            | sys::IBV_QP_ACCESS_FLAGS;
        self.modify(attributes, mask, "initialising a queue pair")
    }

    fn make_ready_to_receive(&self, peer: &Endpoint) -> Result {
        let port = self.domain.port();
        let mut attributes = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTR,
            path_mtu: u32::from(port.mtu().min(peer.mtu)),
            dest_qp_num: peer.queue_pair,
            rq_psn: peer.first_packet,
            ah_attr: self.path_to(peer),
            ..Default::default()
        };
        let mut mask = sys::IBV_QP_STATE
            | sys::IBV_QP_AV
            | sys::IBV_QP_PATH_MTU
            | sys::IBV_QP_DEST_QPN
            | sys::IBV_QP_RQ_PSN;
        if self.kind == Kind::Reliable {
            attributes.max_dest_rd_atomic = port.context().limits().reads_served;
            // 0.01 ms; never used, as a sender counts the receives that its peer has posted.
            attributes.min_rnr_timer = 1;
            mask |= sys::IBV_QP_MAX_DEST_RD_ATOMIC | sys::IBV_QP_MIN_RNR_TIMER;
        }
        self.modify(attributes, mask, "connecting a queue pair (RTR)")
    }

    fn make_ready_to_send(&self, peer: &Endpoint) -> Result {
        let mut attributes = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTS,
            sq_psn: self.first_packet,
            ..Default::default()
        };
        let mut mask = sys::IBV_QP_STATE | sys::IBV_QP_SQ_PSN;
        if self.kind == Kind::Reliable {
            attributes.timeout = TIMEOUT;
            attributes.retry_cnt = RETRIES;
            // A peer without a receive has broken the protocol: it is not asked again.
            attributes.rnr_retry = 0;
            attributes.max_rd_atomic = self.reads_begun(peer);
            mask |= sys::IBV_QP_TIMEOUT
                | sys::IBV_QP_RETRY_CNT
                | sys::IBV_QP_RNR_RETRY
                | sys::IBV_QP_MAX_QP_RD_ATOMIC;
        }
        self.modify(attributes, mask, "connecting a queue pair (RTS)")
    }

    /// Reads and atomics in flight that both ends can keep.
    fn reads_begun(&self, peer: &Endpoint) -> u8 {
        self.domain.port().context().limits().reads_begun.min(peer.reads_served)
    }

    fn path_to(&self, peer: &Endpoint) -> sys::ibv_ah_attr {
        let port = self.domain.port();
        sys::ibv_ah_attr {
            grh: sys::ibv_global_route {
                dgid: sys::ibv_gid { raw: peer.gid },
                sgid_index: self.source.index,
                // A cable has no routers; other networks may.
                hop_limit: if port.wire() == Wire::Thunderbolt { 1 } else { 64 },
                ..Default::default()
            },
            dlid: peer.lid,
            is_global: u8::from(port.wire() != Wire::InfiniBand),
            port_num: port.number(),
            ..Default::default()
        }
    }

    fn modify(&self, mut to: sys::ibv_qp_attr, mask: c_int, call: &'static str) -> Result {
        let modify = self.context().library().functions.ibv_modify_qp;
        // SAFETY: the pair is alive, and the attributes live during the call.
        let returned = unsafe { modify(self.raw.as_ptr(), &raw mut to, mask) };
        self.check(returned, call)
    }

    fn context(&self) -> &Arc<Context> {
        self.domain.port().context()
    }

    fn check(&self, returned: c_int, call: &'static str) -> Result {
        if returned == 0 {
            return Ok(());
        }
        Library::check(returned, self.context().name(), call)
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // Not aborted first: on Thunderbolt its memory could then not be given back.
        let destroy = self.context().library().functions.ibv_destroy_qp;
        // SAFETY: the pair is alive, and is not used after this.
        unsafe { destroy(self.raw.as_ptr()) };
    }
}

/// A new pair, and how many bytes its sends may carry in themselves.
fn create(
    domain: &ProtectionDomain,
    completions: &CompletionQueue,
    kind: Kind,
    capacity: Capacity,
) -> Result<(NonNull<sys::ibv_qp>, u32)> {
    let mut wanted = sys::ibv_qp_init_attr {
        qp_context: none(),
        send_cq: completions.raw(),
        recv_cq: completions.raw(),
        srq: none(),
        cap: sys::ibv_qp_cap {
            max_send_wr: capacity.sends,
            max_recv_wr: capacity.receives,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: capacity.inline_len,
        },
        qp_type: match kind {
            Kind::Reliable => sys::IBV_QPT_RC,
            Kind::Unreliable => sys::IBV_QPT_UC,
        },
        sq_sig_all: 0,
    };
    let context = domain.port().context();
    let create = context.library().functions.ibv_create_qp;
    // SAFETY: the domain and the queue are alive, and outlive the pair, whose owner holds them.
    let raw = unsafe { create(domain.raw(), &raw mut wanted) };
    // A device that cannot carry so much may be refusing just that.
    if raw.is_null() && capacity.inline_len > 0 {
        return self::create(domain, completions, kind, Capacity { inline_len: 0, ..capacity });
    }
    let raw = made(raw, context, "creation of a queue pair")?;
    Ok((raw, wanted.cap.max_inline_data.min(capacity.inline_len)))
}

fn source(port: &Port, place: usize) -> Result<Gid> {
    let gids = port.gids();
    // InfiniBand goes by local numbers, and needs no address.
    let nothing = Gid { bytes: [0; 16], index: 0, protocol: None };
    let found = gids.get(place).copied();
    found.or((port.wire() == Wire::InfiniBand && place == 0).then_some(nothing)).ok_or_else(|| {
        Error::Device {
            device: port.context().name().to_owned(),
            call: "choosing an address",
            reason: format!("all {} addresses of its port have been tried in vain", gids.len()),
        }
    })
}

/// Where packet numbers begin, so that late packets of an earlier connection are known as such.
fn random_24_bits() -> u32 {
    let hash = RandomState::new().hash_one(());
    u32::try_from(hash & 0x00ff_ffff).expect("24 bits are 32")
}
