//! A vector that never changes: its elements are ordinary slices, wherever they live.

use std::{ops::RangeBounds, sync::Arc};

use crate::{
    Part, Portable, Publish, Result,
    allocation::Allocation,
    cluster::Member,
    handle::{Handle, Place, sealed::Wire},
    vec::contiguous,
    wire::HandleWire,
};

/// An immutable vector in the heap of one node, or some of it in everybody's.
///
/// ```
/// # use pangea::{Cluster, Config, Placement};
/// # let cluster = Cluster::join(Config::from_env()?)?;
/// let mut vec = cluster.vec::<f32>(4, Placement::Here)?;
/// vec.slice_mut(..)?.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
/// let frozen = vec.freeze()?;
/// assert_eq!(frozen.slice(1..3)?, [2.0, 3.0]);
/// # Ok::<(), pangea::Error>(())
/// ```
///
/// A slice borrows the vector, whose memory is there as long:
///
/// ```compile_fail
/// # use pangea::{Cluster, Config, Placement};
/// # let cluster = Cluster::join(Config::from_env()?)?;
/// let frozen = cluster.vec::<f32>(4, Placement::Here)?.freeze()?;
/// let slice = frozen.slice(..)?;
/// drop(frozen);
/// assert_eq!(slice[0], 0.0);
/// # Ok::<(), pangea::Error>(())
/// ```
///
/// and what is frozen cannot be written:
///
/// ```compile_fail
/// # use pangea::{Cluster, Config, Placement};
/// # let cluster = Cluster::join(Config::from_env()?)?;
/// let vec = cluster.vec::<f32>(4, Placement::Here)?;
/// let frozen = vec.freeze()?;
/// vec.put(0, 1.0)?;
/// # Ok::<(), pangea::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FrozenVec<T> {
    handle: Handle<T>,
}

impl<T: Portable> FrozenVec<T> {
    /// `handle` must be of elements that nobody writes any more.
    pub(crate) fn new(handle: Handle<T>) -> Self {
        Self { handle }
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.handle.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the elements live, in order.
    pub fn parts(&self) -> &[Part] {
        self.handle.parts()
    }

    /// An element, wherever it lives.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`](crate::Error::OutOfBounds),
    /// [`Error::PeerLost`](crate::Error::PeerLost) where its home is gone.
    #[inline]
    pub fn get(&self, index: usize) -> Result<&T> {
        let place = match self.handle.element(index)? {
            Place::Near(place) => place,
            Place::Far(_) => self.handle.run(index..index + 1)?.resident()?.cast(),
        };
        // SAFETY: as in `slice`, of one element.
        Ok(unsafe { place.as_ref() })
    }

    /// Elements of one node as a slice, which is resident: to read it takes no part of this
    /// library. What is on another host is fetched, in blocks of 16 KiB, unless it was before; it
    /// stays until the vector and its clones are dropped, or [released](Self::release).
    ///
    /// # Errors
    ///
    /// [`Error::PeerLost`](crate::Error::PeerLost) where their home is gone,
    /// [`Error::NotContiguous`](crate::Error::NotContiguous) where they live on several nodes (take
    /// the [`parts`](Self::parts) one by one), [`Error::OutOfBounds`](crate::Error::OutOfBounds),
    /// [`Error::CacheFull`](crate::Error::CacheFull) where there is no room to fetch them to.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<&[T]> {
        let place = contiguous(&self.handle, range)?.resident()?;
        // SAFETY: the elements are inside a window, mapped as long as the handle lives, aligned,
        // and valid whatever their bytes (`Portable`). Nobody writes them: a vector is frozen
        // before it is published, and so while no other handle exists, or by `freeze_published`,
        // whose caller vouches for it; and published memory is never freed. What was fetched of
        // them is held by the handle's allocation, which `release` lets go only where nothing is
        // borrowed.
        Ok(unsafe { place.as_ref() })
    }

    /// Starts to fetch what of `range` is on other hosts, and returns at once: a later
    /// [`slice`](Self::slice) finds it there, or on its way. A hint: what was fetched ahead may
    /// have to make room for others before it is used.
    ///
    /// # Errors
    ///
    /// As for [`slice`](Self::slice).
    pub fn prefetch(&self, range: impl RangeBounds<usize>) -> Result {
        let mut range = self.handle.resolve(range)?;
        while !range.is_empty() {
            let run = self.handle.run(range.clone())?;
            run.prefetch()?;
            range.start += run.len();
        }
        Ok(())
    }

    /// Lets go of what was fetched of the vector from other hosts: it stays only as long as nothing
    /// else needs the room. Clones keep what they may have borrowed.
    pub fn release(&mut self) {
        self.handle.release();
    }
}

impl<T: Portable> Publish for FrozenVec<T> {}

impl<T: Portable> Wire for FrozenVec<T> {
    #[expect(private_interfaces, reason = "a sealed trait is not to be called")]
    fn allocation(&self) -> &Allocation {
        self.handle.allocation()
    }

    #[expect(private_interfaces, reason = "a sealed trait is not to be called")]
    fn to_wire(&self) -> HandleWire {
        self.handle.to_wire(true)
    }

    #[expect(private_interfaces, reason = "a sealed trait is not to be called")]
    fn from_wire(member: &Arc<Member>, name: &str, wire: HandleWire) -> Result<Self> {
        Ok(Self::new(Handle::from_wire(member, name, true, wire)?))
    }
}
