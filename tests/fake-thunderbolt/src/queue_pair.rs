//! Queue pairs: what is posted, and how it moves.

mod modify;
mod receive;
mod send;

use std::{
    ffi::c_uint,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pangea_rdma::verbs::sys::{
    IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RESET, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPT_UC,
    IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WC_RECV, IBV_WR_SEND, ibv_qp_attr, ibv_qp_cap,
    ibv_qp_init_attr, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_wc,
};

use self::{
    receive::{Receive, ReceiveQueue},
    send::{Send, SendQueue},
};
use crate::{
    adapter::{Claim, Resource},
    completion::CompletionQueue,
    errno::{Errno, Result},
    fault::Fates,
    limit,
    memory::Domain,
    wire::Wire,
};

/// Opcode of a completed send.
const WC_SEND: c_uint = 0;

/// A queue pair.
#[derive(Debug)]
pub(crate) struct QueuePair {
    pub(crate) number: u32,
    pub(crate) domain: Arc<Domain>,
    send_queue: Arc<CompletionQueue>,
    receive_queue: Arc<CompletionQueue>,
    // What the queues take, which is not what was asked for.
    pub(crate) cap: ibv_qp_cap,
    signals_all: bool,
    state: Mutex<State>,
    _claim: Claim,
}

#[derive(Debug)]
struct State {
    phase: c_uint,
    // As the program has set them.
    attributes: ibv_qp_attr,
    // From RTR on.
    wire: Option<Wire>,
    // Regions that the queue pair knows have keys up to this: those that were there at RTR.
    last_key: u32,
    sends: SendQueue,
    receives: ReceiveQueue,
}

/// Completes a work request: its name, status, and length.
type Complete<'a> = &'a mut dyn FnMut(u64, c_uint, usize);

impl QueuePair {
    /// Makes a queue pair that completes to these queues.
    pub(crate) fn new(
        domain: &Arc<Domain>,
        asked: &ibv_qp_init_attr,
        send_queue: Arc<CompletionQueue>,
        receive_queue: Arc<CompletionQueue>,
    ) -> Result<Arc<Self>> {
        let context = &domain.context;
        let cap = grant(asked)?;
        let claim = Claim::new(&context.adapter, Resource::QueuePair, Errno(libc::EBUSY))?;
        let number = context.adapter.next_number(context.device.port);
        let fates = Fates::new(context.device.settings.faults, number);
        let state = State {
            phase: IBV_QPS_RESET,
            attributes: ibv_qp_attr::default(),
            wire: None,
            last_key: u32::MAX,
            sends: SendQueue::new(cap.max_send_wr, fates),
            receives: ReceiveQueue::default(),
        };
        let queue_pair = Arc::new(Self {
            number,
            domain: domain.clone(),
            send_queue,
            receive_queue,
            cap,
            signals_all: asked.sq_sig_all != 0,
            state: Mutex::new(state),
            _claim: claim,
        });
        queue_pair.send_queue.attach(&queue_pair);
        queue_pair.receive_queue.attach(&queue_pair);
        context.watch.add(&queue_pair);
        Ok(queue_pair)
    }

    /// Takes the queue pair from all who advance it.
    pub(crate) fn destroy(self: &Arc<Self>) {
        self.domain.context.watch.remove(self);
        self.send_queue.detach(self);
        self.receive_queue.detach(self);
    }

    /// The state, and the attributes that led to it.
    pub(crate) fn query(&self) -> ibv_qp_attr {
        let state = self.state();
        let (qp_state, cap) = (state.phase, self.cap);
        ibv_qp_attr { qp_state, cur_qp_state: qp_state, cap, ..state.attributes }
    }

    /// Posts a send of one piece of memory, or of none.
    pub(crate) fn post_send(&self, request: &ibv_send_wr, sge: Option<ibv_sge>) -> Result {
        if request.opcode != IBV_WR_SEND {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let sge = sge.unwrap_or_default();
        let is_inline = request.send_flags & IBV_SEND_INLINE != 0;
        let mut state = self.state();
        let is_ready = matches!(state.phase, IBV_QPS_RTS | IBV_QPS_ERR);
        if is_inline || !is_ready || sge.length as usize > limit::MESSAGE_LEN {
            return Err(Errno(libc::EINVAL));
        }
        let span = self.domain.resolve(&sge, state.last_key, false);
        let is_signaled = self.signals_all || request.send_flags & IBV_SEND_SIGNALED != 0;
        let id = request.wr_id;
        state.sends.post(Send::new(id, span, sge.length as usize, is_signaled))?;
        self.move_frames(&mut state);
        Ok(())
    }

    /// Posts a receive into one piece of memory, or into none.
    pub(crate) fn post_receive(&self, request: &ibv_recv_wr, sge: Option<ibv_sge>) -> Result {
        let sge = sge.unwrap_or_default();
        let mut state = self.state();
        let is_early = matches!(state.phase, IBV_QPS_INIT | IBV_QPS_RTR);
        let is_refused = is_early && self.domain.context.device.settings.claims.ready_first;
        if state.phase == IBV_QPS_RESET || is_refused || sge.length as usize > limit::MESSAGE_LEN {
            return Err(Errno(libc::EINVAL));
        }
        let span = self.domain.resolve(&sge, state.last_key, true);
        state.receives.post(Receive::new(request.wr_id, span, sge.length as usize));
        self.move_frames(&mut state);
        Ok(())
    }

    /// Does what the adapter would have done by now.
    pub(crate) fn advance(&self) {
        self.move_frames(&mut self.state());
    }

    fn move_frames(&self, state: &mut State) {
        if state.phase == IBV_QPS_ERR {
            return self.flush(state);
        }
        let context = &self.domain.context;
        let State { phase, wire: Some(wire), sends, receives, .. } = state else { return };
        if !context.is_plugged() {
            return;
        }
        let received = receives.advance(wire, &mut |id, status, len| {
            self.receive_queue.push(self.completion(id, status, IBV_WC_RECV, len));
        });
        let sent = *phase == IBV_QPS_RTS
            && sends.advance(wire, &mut |id, status, len| {
                self.send_queue.push(self.completion(id, status, WC_SEND, len));
            });
        if received || sent {
            context.peer_adapter.doorbell.ring();
        }
    }

    fn flush(&self, state: &mut State) {
        state.receives.flush(&mut |id, status, len| {
            self.receive_queue.push(self.completion(id, status, IBV_WC_RECV, len));
        });
        state.sends.flush(&mut |id, status, len| {
            self.send_queue.push(self.completion(id, status, WC_SEND, len));
        });
    }

    fn completion(&self, wr_id: u64, status: c_uint, opcode: c_uint, len: usize) -> ibv_wc {
        let byte_len = u32::try_from(len).expect("a message is short");
        ibv_wc { wr_id, status, opcode, byte_len, qp_num: self.number, ..ibv_wc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a queue pair gets that asks for this.
fn grant(asked: &ibv_qp_init_attr) -> Result<ibv_qp_cap> {
    if asked.qp_type != IBV_QPT_UC {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let cap = asked.cap;
    let most_work = cap.max_send_wr.max(cap.max_recv_wr);
    let most_pieces = cap.max_send_sge.max(cap.max_recv_sge);
    let is_shared = !asked.srq.is_null();
    if most_work > limit::FRAMES || most_pieces > 1 || cap.max_inline_data > 0 || is_shared {
        return Err(Errno(libc::EINVAL));
    }
    let max_send_wr = limit::queue_depth(cap.max_send_wr);
    Ok(ibv_qp_cap { max_send_wr, max_recv_wr: limit::queue_depth(cap.max_recv_wr), ..cap })
}
