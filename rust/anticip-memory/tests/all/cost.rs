//! Memory use of a rehearsal: bytes that stay allocated.

use anticip_memory::{Follower, MOMENTS_PER_HOUR, Memory, Rotations};
use anticip_motion::CanonicalPose;

use crate::counting::bytes_kept;
use crate::following::Movement;

/// A tenth of an hour in ten takes: everything grows with the frames, so an hour costs ten times as much.
#[test]
fn an_hour_of_rehearsal_is_followed_and_recalled_in_fifty_megabytes() {
    let takes: Vec<Vec<CanonicalPose>> = (0..10).map(|n| Movement(n).take(36.0)).collect();
    let room = MOMENTS_PER_HOUR / 10;
    let (_, empty) = bytes_kept(|| Memory::new(1).expect("a capacity"));
    let (mut memory, moments) = bytes_kept(|| {
        let mut memory = Memory::new(room).expect("a capacity");
        for (n, take) in takes.iter().enumerate() {
            let take: Vec<Rotations> = take.iter().map(|pose| pose.map(|q| q.map(f64::from))).collect();
            memory.rehearse(&n.to_string(), &take).expect("room");
        }
        memory
    });
    let (follower, tables) = bytes_kept(|| Follower::new(&takes).expect("takes"));
    assert!(memory.store().len() > 9 * room / 10 && follower.poses(9).is_some());
    let hour = [moments - empty, tables].map(|bytes| 10 * bytes);
    println!("an hour: {} bytes of moments, {} that follow", hour[0], hour[1]);
    assert!(hour.iter().sum::<usize>() <= 50_000_000, "{hour:?}");
}
