use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures::{future, StreamExt};
use rskafka::chrono::{TimeZone, Utc};
use rskafka::client::consumer::{StartOffset, StreamConsumerBuilder};
use rskafka::client::error::Result;
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::Client;
use rskafka::record::Record;
use rskafka::BackoffConfig;

/// How long the client waits before it tries again; by default three times longer each time.
pub fn backoff() -> BackoffConfig {
    BackoffConfig {
        max_backoff: Duration::from_millis(500),
        ..BackoffConfig::default()
    }
}

/// Writes numbered records and reads them, while brokers of a cluster are killed. Prints the values
/// that it has read, each once, in order.
pub async fn run(client: &Client, topic: &str, count: usize) -> Result<()> {
    let partition = client.partition_client(topic, 0, UnknownTopicHandling::Retry).await?;
    let partition = Arc::new(partition);
    let (sent, values) = future::join(send(&partition, count), read(&partition, count)).await;
    sent?;
    println!("{values:?}");
    Ok(())
}

async fn send(partition: &PartitionClient, count: usize) -> Result<()> {
    let now = UNIX_EPOCH.elapsed().expect("a time after 1970").as_millis();
    for number in 0..count {
        let record = Record {
            key: None,
            value: Some(number.to_string().into_bytes()),
            headers: BTreeMap::new(),
            timestamp: Utc.timestamp_millis_opt(now as i64).unwrap(),
        };
        partition.produce(vec![record], Compression::NoCompression).await?;
    }
    Ok(())
}

async fn read(partition: &Arc<PartitionClient>, count: usize) -> Vec<String> {
    let mut stream = StreamConsumerBuilder::new(Arc::clone(partition), StartOffset::Earliest)
        .with_max_wait_ms(100)
        .build();
    let (mut values, mut seen) = (vec![], HashSet::new());
    while values.len() < count {
        // an error ends nothing: the next call tries again
        if let Some(Ok((found, _))) = stream.next().await {
            let value = String::from_utf8(found.record.value.unwrap_or_default()).unwrap();
            if seen.insert(value.clone()) {
                values.push(value);
            }
        }
    }
    values
}
