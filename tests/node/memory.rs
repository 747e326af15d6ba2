//! Scenarios in which all goes well.

use pangea::{Cluster, Error, FrozenVec, GlobalVec, NodeId, Placement, Portable, Result};

/// A vector of node 0's making, seen by all.
fn shared<T: Portable>(
    cluster: &Cluster,
    name: &str,
    len: usize,
    placement: Placement,
) -> Result<GlobalVec<T>> {
    if cluster.node().number() == 0 {
        cluster.publish(name, &cluster.vec::<T>(len, placement)?)?;
    }
    cluster.lookup(name)
}

fn last(cluster: &Cluster) -> NodeId {
    NodeId::new(cluster.nodes() - 1)
}

/// Additions by all nodes to a word of the last are all counted, whichever way they are made.
pub(crate) fn atomics(cluster: &Cluster) -> Result {
    const ROUNDS: u64 = 2000;
    let words = shared::<u64>(cluster, "words", 3, Placement::On(last(cluster)))?;
    let signed = shared::<i64>(cluster, "signed", 1, Placement::On(last(cluster)))?;
    for _ in 0..ROUNDS {
        words.fetch_add(0, 1)?;
        signed.fetch_add(0, -1)?;
        let mut seen = words.get(1)?;
        loop {
            let before = words.compare_exchange(1, seen, seen + 2)?;
            if before == seen {
                break;
            }
            seen = before;
        }
    }
    cluster.barrier()?;
    let all = ROUNDS * u64::from(cluster.nodes());
    assert_eq!(words.get(0)?, all);
    assert_eq!(words.get(1)?, 2 * all);
    assert_eq!(signed.get(0)?, -all.cast_signed());
    if cluster.node().number() == 0 {
        assert_eq!(words.swap(2, 5)?, 0);
        assert_eq!(words.fetch_add(2, 3)?, 5);
        assert_eq!(words.compare_exchange(2, 1, 7)?, 8);
        assert_eq!(words.compare_exchange(2, 8, 7)?, 8);
        assert_eq!(words.fetch_add(2, u64::MAX)?, 7);
        assert_eq!(words.get(2)?, 6);
    }
    cluster.barrier()
}

/// After a barrier, every node has come as often as this one.
pub(crate) fn barriers(cluster: &Cluster) -> Result {
    let counts = shared::<u64>(cluster, "counts", usize::from(cluster.nodes()), Placement::Spread)?;
    for round in 1..=2000 {
        counts.put(cluster.node().index(), round)?;
        cluster.barrier()?;
        for node in 0..counts.len() {
            assert!(counts.get(node)? >= round, "node {node} is behind in round {round}");
        }
    }
    cluster.barrier()
}

/// Odd sizes and odd elements arrive as they were sent.
pub(crate) fn bulk(cluster: &Cluster) -> Result {
    let bytes = shared::<u8>(cluster, "bytes", 1 << 20, Placement::On(last(cluster)))?;
    let odd = shared::<[u8; 12]>(cluster, "odd", 100, Placement::On(last(cluster)))?;
    let pattern = |len: usize| (0..=250).cycle().take(len).collect::<Vec<u8>>();
    if cluster.node().number() == 0 {
        let mut start = 0;
        for len in [0, 1, 7, 4095, 4096, 4097, 65_537, 300_000] {
            bytes.put_slice(start, &pattern(len))?;
            start += len;
        }
        odd.put(99, *b"twelve bytes")?;
    }
    cluster.barrier()?;
    let mut start = 0;
    for len in [0, 1, 7, 4095, 4096, 4097, 65_537, 300_000] {
        let mut seen = vec![0xFF; len];
        bytes.get_slice(start, &mut seen)?;
        assert_eq!(seen, pattern(len));
        start += len;
    }
    assert_eq!(odd.get(99)?, *b"twelve bytes");
    assert_eq!(odd.get(98)?, [0; 12]);
    let error = bytes.get_slice((1 << 20) - 3, &mut [0; 4]).unwrap_err();
    assert!(matches!(error, Error::OutOfBounds { .. }), "{error}");
    let error = bytes.put(usize::MAX, 1).unwrap_err();
    assert!(matches!(error, Error::OutOfBounds { .. }), "{error}");
    cluster.barrier()
}

/// A heap without room says how much is missing, and works on.
pub(crate) fn exhaust(cluster: &Cluster) -> Result {
    let capacity = cluster.heap_statistics().capacity_bytes;
    let too_much = usize::try_from(capacity).unwrap() + 1;
    for placement in [Placement::Here, Placement::On(last(cluster)), Placement::Spread] {
        let len = if placement == Placement::Spread { 16 * too_much } else { too_much };
        let error = cluster.vec::<u8>(len, placement).unwrap_err();
        let Error::OutOfMemory { wanted, largest_free, .. } = error else { panic!("{error}") };
        assert!(wanted > largest_free);
        assert!(error.to_string().contains("PANGEA_HEAP"), "{error}");
    }
    let error = cluster.vec::<[u8; 16]>(usize::MAX / 8, Placement::Here).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    let error = cluster.vec::<u8>(1, Placement::On(NodeId::new(999))).unwrap_err();
    assert!(matches!(error, Error::Config { .. }), "{error}");
    cluster.barrier()?;
    assert_eq!(cluster.heap_statistics().live_allocations, 0, "a failed allocation leaves nothing");
    cluster.barrier()
}

/// What was filled in place is there for whoever is told of it, and is not written again over what
/// they write.
pub(crate) fn filled(cluster: &Cluster) -> Result {
    let len = 1000 + usize::from(cluster.nodes());
    let mut own = None;
    if cluster.node().number() == 0 {
        let mut vec = cluster.vec::<u64>(len, Placement::On(last(cluster)))?;
        vec.slice_mut(..)?.fill(1);
        let pointer = vec.pointer(len - 1)?;
        // SAFETY: the element lives as long as `vec`, which nobody has borrowed.
        assert_eq!(unsafe { cluster.get(pointer) }?, 1);
        // SAFETY: likewise; it is not frozen.
        unsafe { cluster.put(pointer, 2) }?;
        assert_eq!(vec.get(len - 1)?, 2);
        vec.slice_mut(..)?.fill(3);
        cluster.publish("filled", &vec)?;
        own = Some(vec);
    }
    let found: GlobalVec<u64> = cluster.lookup("filled")?;
    let mut all = vec![0; len];
    found.get_slice(0, &mut all)?;
    assert!(all.iter().all(|value| *value == 3));
    cluster.barrier()?;
    let written = |node: usize| 10 + node as u64;
    found.put(cluster.node().index(), written(cluster.node().index()))?;
    cluster.barrier()?;
    if let Some(vec) = own {
        vec.put(len - 1, 4)?;
    }
    cluster.barrier()?;
    for node in 0..usize::from(cluster.nodes()) {
        assert_eq!(found.get(node)?, written(node));
    }
    assert_eq!(found.get(len - 1)?, 4);
    cluster.barrier()
}

/// A frozen vector is a slice to every node, wherever it lives.
pub(crate) fn frozen(cluster: &Cluster) -> Result {
    let own = format!("of {}", cluster.node().number());
    let mut vec = cluster.vec::<u32>(5000, Placement::Here)?;
    for (value, place) in (0..).zip(vec.slice_mut(..)?) {
        *place = value * 3 + u32::from(cluster.node().number());
    }
    cluster.publish(&own, &vec.freeze()?)?;
    for node in 0..cluster.nodes() {
        let vec: FrozenVec<u32> = cluster.lookup(&format!("of {node}"))?;
        assert_eq!(vec.parts()[0].home(), NodeId::new(node));
        let slice = vec.slice(10..4990)?;
        assert!((10..4990).zip(slice).all(|(i, value)| *value == i * 3 + u32::from(node)));
        assert!(vec.slice(7..7)?.is_empty());
        assert!(vec.slice(4999..=5000).is_err());
    }
    // Who could still write cannot freeze.
    let written = shared::<u8>(cluster, "written", 3, Placement::Here)?;
    assert!(matches!(written.freeze(), Err(Error::Published)));
    let mut published = cluster.vec::<u8>(3, Placement::Here)?;
    cluster.publish(&format!("published {}", cluster.node()), &published)?;
    assert!(matches!(published.slice_mut(..), Err(Error::Published)));
    cluster.barrier()
}

/// Vectors beyond 2 and 4 GiB, of which little is touched.
pub(crate) fn huge(cluster: &Cluster) -> Result {
    let triples = shared::<[u32; 3]>(cluster, "triples", 225_000_000, Placement::Spread)?;
    let bytes = shared::<u8>(cluster, "bytes", (1 << 32) + 2, Placement::On(last(cluster)))?;
    let places = [0, (1 << 31) / 12, 224_999_999];
    let offsets = [0, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 1];
    if cluster.node().number() == 0 {
        for (value, place) in (1..).zip(places) {
            triples.put(place, [value; 3])?;
        }
        for (value, offset) in (1..).zip(offsets) {
            bytes.put(offset, value)?;
        }
    }
    cluster.barrier()?;
    for (value, place) in (1..).zip(places) {
        assert_eq!(triples.get(place)?, [value; 3]);
    }
    for (value, offset) in (1..).zip(offsets) {
        assert_eq!(bytes.get(offset)?, value);
    }
    let mut around = [9; 4];
    bytes.get_slice((1 << 32) - 2, &mut around)?;
    assert_eq!(around, [0, 4, 5, 6]);
    cluster.barrier()
}

/// A name means one thing, of one type, and can be asked for before it is published.
pub(crate) fn names(cluster: &Cluster) -> Result {
    let is_first = cluster.node().number() == 0;
    if !is_first {
        let early: FrozenVec<u16> = cluster.lookup("late")?;
        assert_eq!(early.slice(..)?, [7, 7]);
    }
    if is_first {
        let mut vec = cluster.vec::<u16>(2, Placement::On(last(cluster)))?;
        vec.slice_mut(..)?.fill(7);
        cluster.publish("late", &vec.freeze()?)?;
    }
    cluster.barrier()?;
    let error = cluster.publish("late", &cluster.vec::<u8>(1, Placement::Here)?).unwrap_err();
    assert!(matches!(error, Error::NameTaken { .. }), "{error}");
    let error = cluster.lookup::<FrozenVec<u32>>("late").unwrap_err();
    assert_eq!(error.to_string(), "'late' is a FrozenVec of u16, not a FrozenVec of u32");
    let error = cluster.lookup::<GlobalVec<u16>>("late").unwrap_err();
    assert!(matches!(error, Error::TypeMismatch { .. }), "{error}");
    for name in ["", &"n".repeat(256)] {
        let error = cluster.lookup::<GlobalVec<u16>>(name).unwrap_err();
        assert!(matches!(error, Error::Config { field: "name", .. }), "{error}");
    }
    cluster.barrier()
}

/// What is dropped can be allocated again, at home and elsewhere, and is zero.
pub(crate) fn reuse(cluster: &Cluster) -> Result {
    let capacity = usize::try_from(cluster.heap_statistics().capacity_bytes).unwrap();
    for placement in [Placement::Here, Placement::On(last(cluster))] {
        for round in 0..20 {
            if cluster.node().number() == 0 {
                for len in [capacity / 2 + 1, 100] {
                    let mut vec = cluster.vec::<u8>(len, placement)?;
                    assert!(vec.slice_mut(..)?.iter().all(|byte| *byte == 0), "round {round}");
                    vec.slice_mut(..)?.fill(0xEE);
                }
            }
        }
        cluster.barrier()?;
    }
    // A message from here to the last node is behind those that freed.
    drop(cluster.vec::<u8>(1, Placement::On(last(cluster)))?);
    cluster.barrier()
}

/// A spread vector is one vector, whatever its length and the number of nodes.
pub(crate) fn spread(cluster: &Cluster) -> Result {
    for len in [0, 1, 3, 10, 1000] {
        let vec = shared::<u64>(cluster, &format!("spread {len}"), len, Placement::Spread)?;
        assert_eq!((vec.len(), vec.is_empty()), (len, len == 0));
        assert_eq!(vec.parts().iter().map(|part| part.elements().len()).sum::<usize>(), len);
        for part in vec.parts().iter().filter(|part| part.home() == cluster.node()) {
            for index in part.elements() {
                vec.put(index, 7 * index as u64)?;
                let pointer = vec.pointer(index)?;
                assert_eq!(pointer.home(), part.home());
                // SAFETY: the element lives as long as `vec`, which nobody has borrowed.
                assert_eq!(unsafe { cluster.get(pointer) }?, 7 * index as u64);
                // SAFETY: likewise; it is not frozen.
                unsafe { cluster.put(pointer, 7 * index as u64) }?;
            }
        }
        cluster.barrier()?;
        let mut all = vec![0; len];
        vec.get_slice(0, &mut all)?;
        assert!((0..).step_by(7).zip(&all).all(|(wanted, value)| wanted == *value));
        assert!((0..len).all(|index| vec.get(index).unwrap() == all[index]));
        assert!(matches!(vec.get(len), Err(Error::OutOfBounds { .. })));
        if len > usize::from(cluster.nodes()) && cluster.nodes() > 1 {
            let mut own = cluster.vec::<u64>(len, Placement::Spread)?;
            assert!(matches!(own.slice_mut(..), Err(Error::NotContiguous { start: 0, .. })));
            let first = own.parts()[0].elements();
            own.slice_mut(first)?.fill(1);
        }
        cluster.barrier()?;
    }
    Ok(())
}

/// Says how this node reaches each of the others.
pub(crate) fn ways(cluster: &Cluster) -> Result {
    for node in NodeId::all(cluster.nodes()).filter(|&node| node != cluster.node()) {
        let way = cluster.path(node);
        println!("{} to {node}: {}, {}", cluster.node(), way.name, way.reason);
    }
    cluster.barrier()
}
