//! The states of a queue pair: RESET, INIT, ready to receive (RTR), ready to send (RTS); ERR.

use std::ffi::{c_int, c_uint};

use pangea_rdma::verbs::sys::{
    IBV_MTU_256, IBV_MTU_4096, IBV_QP_ACCESS_FLAGS, IBV_QP_AV, IBV_QP_DEST_QPN, IBV_QP_PATH_MTU,
    IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_STATE, IBV_QPS_ERR,
    IBV_QPS_INIT, IBV_QPS_RESET, IBV_QPS_RTR, IBV_QPS_RTS, ibv_gid, ibv_qp_attr,
};

use super::{QueuePair, State};
use crate::{
    context::Context,
    errno::{Errno, Result},
    wire::Wire,
};

/// Attributes that a step needs (1.3); others are refused.
const TO_INIT: c_int = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
const TO_RTR: c_int = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
const TO_RTS: c_int = IBV_QP_SQ_PSN;

const INVALID: Errno = Errno(libc::EINVAL);

impl QueuePair {
    /// Takes a step, with the attributes that `mask` names.
    pub(crate) fn modify(&self, asked: &ibv_qp_attr, mask: c_int) -> Result {
        let mut state = self.state();
        let given = mask & !IBV_QP_STATE;
        let is_step = match (state.phase, asked.qp_state) {
            _ if mask & IBV_QP_STATE == 0 => false,
            (IBV_QPS_RESET, IBV_QPS_INIT) => given == TO_INIT,
            (IBV_QPS_INIT, IBV_QPS_RTR) => given == TO_RTR,
            (IBV_QPS_RTR, IBV_QPS_RTS) => given == TO_RTS,
            (_, IBV_QPS_RESET | IBV_QPS_ERR) => given == 0,
            _ => false,
        };
        if !is_step {
            return Err(INVALID);
        }
        self.enter(asked.qp_state, asked, &mut state)?;
        state.phase = asked.qp_state;
        self.move_frames(&mut state);
        Ok(())
    }

    fn enter(&self, phase: c_uint, asked: &ibv_qp_attr, state: &mut State) -> Result {
        match phase {
            IBV_QPS_INIT => state.init(asked),
            IBV_QPS_RTR => self.connect(asked, state),
            IBV_QPS_RTS => {
                state.attributes.sq_psn = asked.sq_psn;
                Ok(())
            }
            IBV_QPS_ERR => {
                state.wire = None;
                Ok(())
            }
            _ => {
                state.reset();
                Ok(())
            }
        }
    }

    /// Joins this queue pair and the one at the other end of the cable.
    fn connect(&self, asked: &ibv_qp_attr, state: &mut State) -> Result {
        let context = &self.domain.context;
        let path = &asked.ah_attr;
        let is_mtu = (IBV_MTU_256..=IBV_MTU_4096).contains(&asked.path_mtu);
        if !is_mtu || path.is_global != 1 || path.port_num != 1 {
            return Err(INVALID);
        }
        find(context, &path.grh.dgid)?;
        let own = (context.device.port, self.number);
        let peer = (context.device.peer, asked.dest_qp_num);
        state.wire = Some(Wire::open(&context.device.settings.directory, own, peer)?);
        if context.device.settings.claims.regions_first {
            state.last_key = self.domain.last_key();
        }
        let ibv_qp_attr { path_mtu, dest_qp_num, rq_psn, ah_attr, .. } = *asked;
        state.attributes =
            ibv_qp_attr { path_mtu, dest_qp_num, rq_psn, ah_attr, ..state.attributes };
        Ok(())
    }
}

impl State {
    fn init(&mut self, asked: &ibv_qp_attr) -> Result {
        if asked.port_num != 1 || asked.pkey_index != 0 {
            return Err(INVALID);
        }
        let ibv_qp_attr { port_num, pkey_index, qp_access_flags, .. } = *asked;
        self.attributes = ibv_qp_attr { port_num, pkey_index, qp_access_flags, ..self.attributes };
        Ok(())
    }

    fn reset(&mut self) {
        self.wire = None;
        self.last_key = u32::MAX;
        self.sends.clear();
        self.receives.clear();
        self.attributes = ibv_qp_attr::default();
    }
}

/// Looks for the address at the other end of the cable, the only place where it may be.
///
/// With which number it fails is in `apple-rdma.md` 1.4.
fn find(context: &Context, address: &ibv_gid) -> Result {
    if *address == ibv_gid::default() {
        return Err(INVALID);
    }
    let gids = context.device.settings.cabling.gids(context.device.peer).unwrap_or_default();
    let index = gids.iter().position(|gid| gid == address);
    // The IPv4 address is what all use; the others are said to be unknown until there was traffic.
    let is_known =
        index == Some(1) || index.is_some() && !context.device.settings.claims.cold_neighbours;
    if is_known && context.is_active() { Ok(()) } else { Err(Errno(libc::ETIMEDOUT)) }
}
