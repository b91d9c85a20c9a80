//! The semantic cases (`core/tests/fixtures`) played by several processes over one store, which
//! come, die and hand over meanwhile.

use std::sync::Arc;
use std::time::Duration;

use super::{World, play_all};

/// Two processes divide the partitions, and both take part.
pub async fn play_where_two_divide_the_partitions(world: Arc<World>) {
    let (first, second) = (world.join().await, world.join().await);
    play_all(Arc::clone(&world), async {}).await;
    let processes = world.stage.processes();
    assert!(processes.contains(&first) && processes.contains(&second));
}

/// The older of two processes dies after this long, so many times, and another comes.
pub async fn play_where_processes_die(world: Arc<World>, times: usize, after: Duration) {
    let mut oldest = world.join().await;
    world.join().await;
    let disturbed = Arc::clone(&world);
    let disturb = async move {
        for _ in 0..times {
            tokio::time::sleep(after).await;
            disturbed.join().await;
            disturbed.kill(oldest);
            oldest = disturbed.live()[0];
        }
    };
    play_all(world, disturb).await;
}

/// The process stops after this long, so many times, and hands over to another.
pub async fn play_where_processes_hand_over(world: Arc<World>, times: usize, after: Duration) {
    world.join().await;
    let disturbed = Arc::clone(&world);
    let disturb = async move {
        for _ in 0..times {
            tokio::time::sleep(after).await;
            let oldest = disturbed.live()[0];
            disturbed.join().await;
            disturbed.stop(oldest).await;
        }
    };
    play_all(world, disturb).await;
}
