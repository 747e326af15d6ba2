//! A device with all that a program makes of it, torn down in order.

use std::{
    ffi::{CStr, c_int, c_uint, c_void},
    io, mem, ptr, thread,
    time::{Duration, Instant},
};

use memmap2::{MmapMut, MmapRaw};
use pangea_rdma::verbs::sys::{
    IBV_ACCESS_LOCAL_WRITE, IBV_MTU_4096, IBV_QP_ACCESS_FLAGS, IBV_QP_AV, IBV_QP_DEST_QPN,
    IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_STATE,
    IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPT_UC, IBV_SEND_SIGNALED, IBV_WR_SEND,
    ibv_ah_attr, ibv_context, ibv_cq, ibv_gid, ibv_global_route, ibv_mr, ibv_pd, ibv_qp,
    ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr, ibv_recv_wr, ibv_send_wr, ibv_send_wr_rdma,
    ibv_send_wr_target, ibv_sge, ibv_wc,
};

use crate::verbs::verbs;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// An open device, a protection domain, and a completion queue.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) context: *mut ibv_context,
    pub(crate) domain: *mut ibv_pd,
    pub(crate) queue: *mut ibv_cq,
}

impl Machine {
    /// Opens a device of the host that the environment describes.
    pub(crate) fn open(device: &str) -> Self {
        let context = open_device(device);
        let domain = verbs().ibv_alloc_pd(context);
        assert!(!domain.is_null(), "{}", io::Error::last_os_error());
        let queue = verbs().ibv_create_cq(context, 4096, ptr::null_mut(), ptr::null_mut(), 0);
        assert!(!queue.is_null(), "{}", io::Error::last_os_error());
        Self { context, domain, queue }
    }

    /// An entry of the port's GID table.
    pub(crate) fn gid(&self, index: c_int) -> ibv_gid {
        let mut gid = ibv_gid::default();
        assert_eq!(verbs().ibv_query_gid(self.context, 1, index, &mut gid), 0);
        gid
    }

    /// Maps memory and registers it.
    pub(crate) fn memory(&self, len: usize) -> Memory<'_> {
        let map = MmapRaw::from(MmapMut::map_anon(len).unwrap());
        let region = self.register(map.as_mut_ptr(), len, IBV_ACCESS_LOCAL_WRITE).unwrap();
        Memory { region, map }
    }

    pub(crate) fn register(
        &self,
        address: *mut u8,
        len: usize,
        access: c_int,
    ) -> io::Result<Region<'_>> {
        let raw = verbs().ibv_reg_mr(self.domain, address.cast::<c_void>(), len, access);
        if raw.is_null() {
            Err(io::Error::last_os_error())
        } else {
            Ok(Region { raw, _machine: self })
        }
    }

    /// Makes a queue pair that nobody would refuse.
    pub(crate) fn pair(&self) -> Pair<'_> {
        self.try_pair(|_| ()).unwrap()
    }

    pub(crate) fn try_pair(
        &self,
        change: impl FnOnce(&mut ibv_qp_init_attr),
    ) -> io::Result<Pair<'_>> {
        let mut asked = ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: self.queue,
            recv_cq: self.queue,
            srq: ptr::null_mut(),
            cap: ibv_qp_cap {
                max_send_wr: 1024,
                max_recv_wr: 1024,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            qp_type: IBV_QPT_UC,
            sq_sig_all: 0,
        };
        change(&mut asked);
        let raw = verbs().ibv_create_qp(self.domain, &mut asked);
        if raw.is_null() {
            Err(io::Error::last_os_error())
        } else {
            Ok(Pair { raw, machine: self })
        }
    }

    /// A completion, if there is one.
    pub(crate) fn poll(&self) -> Option<ibv_wc> {
        let mut completion = ibv_wc::default();
        // SAFETY: the context is open.
        let poll = unsafe { (*self.context).ops.poll_cq }.expect("the library polls");
        // SAFETY: the queue lives, and there is room for one completion.
        let count = unsafe { poll(self.queue, 1, &mut completion) };
        assert!((0..=1).contains(&count), "{count}");
        (count == 1).then_some(completion)
    }

    /// Waits for a completion.
    pub(crate) fn wait(&self) -> ibv_wc {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(completion) = self.poll() {
                return completion;
            }
            assert!(Instant::now() < deadline, "a completion comes");
            // Others need the machine too.
            thread::yield_now();
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        assert_eq!(verbs().ibv_destroy_cq(self.queue), 0);
        assert_eq!(verbs().ibv_dealloc_pd(self.domain), 0);
        assert_eq!(verbs().ibv_close_device(self.context), 0);
    }
}

/// Opens the device of this name.
pub(crate) fn open_device(name: &str) -> *mut ibv_context {
    let mut count = 0;
    let list = verbs().ibv_get_device_list(&mut count);
    assert!(!list.is_null(), "the environment describes hardware");
    let mut devices = (0..usize::try_from(count).unwrap()).map(|index| {
        // SAFETY: the list is as long as it says.
        unsafe { *list.wrapping_add(index) }
    });
    let found = devices.find(|&device| {
        // SAFETY: names are strings that live as long as their devices.
        unsafe { CStr::from_ptr(verbs().ibv_get_device_name(device)) }.to_str() == Ok(name)
    });
    let context = verbs().ibv_open_device(found.expect("the device is there"));
    verbs().ibv_free_device_list(list);
    assert!(!context.is_null(), "{}", io::Error::last_os_error());
    context
}

/// A memory region, until dropped.
#[derive(Debug)]
pub(crate) struct Region<'a> {
    pub(crate) raw: *mut ibv_mr,
    _machine: &'a Machine,
}

impl Region<'_> {
    /// A part of the region, for a work request.
    pub(crate) fn part(&self, offset: usize, len: usize) -> ibv_sge {
        // SAFETY: the region lives.
        let ibv_mr { addr, lkey, .. } = unsafe { ptr::read(self.raw) };
        ibv_sge { addr: addr as u64 + offset as u64, length: u32::try_from(len).unwrap(), lkey }
    }
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        assert_eq!(verbs().ibv_dereg_mr(self.raw), 0);
    }
}

/// Memory that is mapped and registered.
#[derive(Debug)]
pub(crate) struct Memory<'a> {
    // First: gone before the memory is.
    pub(crate) region: Region<'a>,
    map: MmapRaw,
}

impl Memory<'_> {
    pub(crate) fn part(&self, offset: usize, len: usize) -> ibv_sge {
        self.region.part(offset, len)
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.map.len());
        // SAFETY: in the map, which nobody else writes while a test does.
        unsafe {
            self.map.as_mut_ptr().wrapping_add(offset).copy_from(bytes.as_ptr(), bytes.len())
        };
    }

    pub(crate) fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= self.map.len());
        let mut bytes = vec![0; len];
        // SAFETY: in the map, which nobody writes any more when a test looks.
        unsafe { bytes.as_mut_ptr().copy_from(self.map.as_ptr().wrapping_add(offset), len) };
        bytes
    }
}

/// A queue pair, until dropped.
#[derive(Debug)]
pub(crate) struct Pair<'a> {
    pub(crate) raw: *mut ibv_qp,
    machine: &'a Machine,
}

impl Pair<'_> {
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: the queue pair lives.
        unsafe { (*self.raw).qp_num }
    }

    /// Goes through all states, to the queue pair `number` at `gid`.
    pub(crate) fn connect(&self, gid: ibv_gid, number: u32) -> io::Result<()> {
        self.init()?;
        self.ready_to_receive(gid, number)?;
        self.ready_to_send()
    }

    pub(crate) fn init(&self) -> io::Result<()> {
        let attr = ibv_qp_attr { qp_state: IBV_QPS_INIT, port_num: 1, ..Default::default() };
        self.modify(attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
    }

    pub(crate) fn ready_to_receive(&self, dgid: ibv_gid, dest_qp_num: u32) -> io::Result<()> {
        let grh = ibv_global_route { dgid, sgid_index: 1, hop_limit: 1, ..Default::default() };
        let attr = ibv_qp_attr {
            qp_state: IBV_QPS_RTR,
            path_mtu: IBV_MTU_4096,
            dest_qp_num,
            ah_attr: ibv_ah_attr { grh, is_global: 1, port_num: 1, ..Default::default() },
            ..Default::default()
        };
        self.modify(attr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
    }

    pub(crate) fn ready_to_send(&self) -> io::Result<()> {
        let attr = ibv_qp_attr { qp_state: IBV_QPS_RTS, ..Default::default() };
        self.modify(attr, IBV_QP_SQ_PSN)
    }

    pub(crate) fn modify(&self, mut attr: ibv_qp_attr, mask: c_int) -> io::Result<()> {
        done(verbs().ibv_modify_qp(self.raw, &mut attr, mask | IBV_QP_STATE))
    }

    /// Posts a send that completes as `wr_id`.
    pub(crate) fn send(&self, wr_id: u64, part: ibv_sge) -> io::Result<()> {
        self.send_with(wr_id, part, IBV_WR_SEND, IBV_SEND_SIGNALED)
    }

    pub(crate) fn send_with(
        &self,
        wr_id: u64,
        mut part: ibv_sge,
        opcode: c_uint,
        send_flags: c_uint,
    ) -> io::Result<()> {
        let mut request = ibv_send_wr {
            wr_id,
            next: ptr::null_mut(),
            sg_list: &mut part,
            num_sge: 1,
            opcode,
            send_flags,
            imm_data: 0,
            wr: ibv_send_wr_target { rdma: ibv_send_wr_rdma::default() },
            _after_wr: [0; 7],
        };
        let mut bad = ptr::null_mut();
        // SAFETY: the context is open.
        let post = unsafe { (*self.machine.context).ops.post_send }.expect("the library posts");
        // SAFETY: the queue pair lives, and the request during the call.
        done(unsafe { post(self.raw, &mut request, &mut bad) })
    }

    /// Posts a receive that completes as `wr_id`.
    pub(crate) fn receive(&self, wr_id: u64, mut part: ibv_sge) -> io::Result<()> {
        let mut request =
            ibv_recv_wr { wr_id, next: ptr::null_mut(), sg_list: &mut part, num_sge: 1 };
        let mut bad = ptr::null_mut();
        // SAFETY: the context is open.
        let post = unsafe { (*self.machine.context).ops.post_recv }.expect("the library posts");
        // SAFETY: the queue pair lives, and the request during the call.
        done(unsafe { post(self.raw, &mut request, &mut bad) })
    }

    pub(crate) fn query(&self) -> ibv_qp_attr {
        let mut attr = ibv_qp_attr::default();
        // SAFETY: of integers and pointers, for which zero is valid.
        let mut init: ibv_qp_init_attr = unsafe { mem::zeroed() };
        assert_eq!(verbs().ibv_query_qp(self.raw, &mut attr, 0, &mut init), 0);
        attr
    }
}

impl Drop for Pair<'_> {
    fn drop(&mut self) {
        assert_eq!(verbs().ibv_destroy_qp(self.raw), 0);
    }
}

/// What a verb answered.
pub(crate) fn done(number: c_int) -> io::Result<()> {
    if number == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(number)) }
}
