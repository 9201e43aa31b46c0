//! Every call of rskafka that needs no second broker and no security: `kqueue-rskafka BOOTSTRAP`.
//! It prints a line of JSON per call. Or work while brokers are killed:
//! `kqueue-rskafka BOOTSTRAP TOPIC COUNT`.

mod failover;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{future, StreamExt};
use rskafka::chrono::{TimeZone, Utc};
use rskafka::client::consumer::{StartOffset, StreamConsumerBuilder};
use rskafka::client::error::{Error, Result};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::producer::{aggregator::RecordAggregator, BatchProducerBuilder};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::{Record, RecordAndOffset};

const TOPIC: &str = "rskafka-topic";
const NOWHERE: &str = "rskafka-nowhere";
const TIMEOUT_MS: i32 = 20_000;
const BYTES: std::ops::Range<i32> = 1..1_000_000;
const DONE: &str = "done";

/// Prints a result, whose `Debug` is JSON, or an error by its name in the protocol.
fn print<T: std::fmt::Debug>(call: &str, result: Result<T>) {
    let text = match result {
        Ok(found) => format!("{found:?}"),
        Err(error) => {
            eprintln!("{call}: {error}");
            format!("{{\"error\":{:?}}}", error_name(&error))
        }
    };
    println!("{{\"call\":{call:?},\"result\":{text}}}");
}

fn error_name(error: &Error) -> String {
    match error {
        Error::ServerError { protocol_error, .. } => format!("{protocol_error:?}"),
        other => other.to_string(),
    }
}

/// A record of a second after 1970 that is its number.
fn record(number: i64) -> Record {
    Record {
        key: Some(b"key".to_vec()),
        value: Some(format!("value{number}").into_bytes()),
        headers: BTreeMap::from([("number".to_owned(), number.to_string().into_bytes())]),
        timestamp: Utc.timestamp_opt(number, 0).unwrap(),
    }
}

fn shown(found: &RecordAndOffset) -> String {
    let record = &found.record;
    let text = |bytes: &Option<Vec<u8>>| String::from_utf8(bytes.clone().unwrap_or_default()).unwrap();
    let header = String::from_utf8(record.headers["number"].clone()).unwrap();
    format!(
        "{} {} {} {} {header}",
        found.offset,
        text(&record.key),
        text(&record.value),
        record.timestamp.timestamp()
    )
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let brokers = words[1].split(',').map(str::to_owned).collect();
    let client = ClientBuilder::new(brokers)
        .client_id("rskafka")
        .backoff_config(failover::backoff())
        .build()
        .await?;
    if words.len() > 2 {
        let count = words[3].parse().expect("a number");
        return failover::run(&client, &words[2], count).await;
    }
    topics(&client).await?;
    let partition = client.partition_client(TOPIC, 1, UnknownTopicHandling::Retry).await?;
    let partition = Arc::new(partition);
    print(
        "PartitionClient.new",
        Ok(format!("{} {}", partition.topic(), partition.partition())),
    );
    let unknown = client.partition_client(NOWHERE, 0, UnknownTopicHandling::Error).await;
    print("PartitionClient.new/unknown", unknown.map(|_| DONE));
    produce(&partition).await;
    batch(&partition).await;
    consume(&partition).await;
    offsets(&partition).await;
    let controller = client.controller_client()?;
    print(
        "ControllerClient.delete_topic",
        controller.delete_topic(TOPIC, TIMEOUT_MS).await.map(|()| DONE),
    );
    print(
        "ControllerClient.delete_topic/unknown",
        controller.delete_topic(NOWHERE, TIMEOUT_MS).await.map(|()| DONE),
    );
    Ok(())
}

async fn topics(client: &Client) -> Result<()> {
    let controller = client.controller_client()?;
    let created = |result: Result<()>| result.map(|()| DONE);
    print(
        "ControllerClient.create_topic",
        created(controller.create_topic(TOPIC, 2, 1, TIMEOUT_MS).await),
    );
    print(
        "ControllerClient.create_topic/exists",
        created(controller.create_topic(TOPIC, 2, 1, TIMEOUT_MS).await),
    );
    print(
        "ControllerClient.create_topic/partitions",
        created(controller.create_topic(NOWHERE, 0, 1, TIMEOUT_MS).await),
    );
    print(
        "ControllerClient.create_topic/name",
        created(controller.create_topic("not/a/name", 1, 1, TIMEOUT_MS).await),
    );
    let listed = client.list_topics().await.map(|all| {
        let own = all.into_iter().find(|one| one.name == TOPIC);
        own.map_or(vec![], |one| one.partitions.into_iter().collect())
    });
    print::<Vec<i32>>("Client.list_topics", listed);
    Ok(())
}

async fn produce(partition: &PartitionClient) {
    let codecs = [
        ("none", Compression::NoCompression),
        ("gzip", Compression::Gzip),
        ("snappy", Compression::Snappy),
    ];
    for (number, (codec, compression)) in codecs.into_iter().enumerate() {
        let first = 2 * number as i64;
        let records = vec![record(first), record(first + 1)];
        print(
            &format!("PartitionClient.produce/{codec}"),
            partition.produce(records, compression).await,
        );
    }
    let large = Record {
        value: Some(vec![b'x'; 2_000_000]),
        ..record(6)
    };
    print(
        "PartitionClient.produce/too large",
        partition.produce(vec![large], Compression::NoCompression).await,
    );
}

async fn batch(partition: &Arc<PartitionClient>) {
    let producer = BatchProducerBuilder::new(Arc::clone(partition))
        .with_linger(Duration::from_secs(60))
        .with_compression(Compression::Snappy)
        .build(RecordAggregator::new(1_000_000));
    let sent = async {
        // the first waits for the linger time: the flush ends it
        tokio::time::sleep(Duration::from_millis(100)).await;
        producer.flush().await
    };
    let (one, two, flushed) = future::join3(producer.produce(record(6)), producer.produce(record(7)), sent).await;
    print(
        "BatchProducer.produce",
        one.and_then(|first| two.map(|second| [first, second]))
            .map_err(unexpected),
    );
    print("BatchProducer.flush", flushed.map(|()| DONE).map_err(unexpected));
}

fn unexpected(error: impl std::fmt::Display) -> Error {
    Error::InvalidResponse(error.to_string())
}

async fn consume(partition: &Arc<PartitionClient>) {
    let fetched = partition.fetch_records(0, BYTES, 1_000).await;
    let texts = fetched.map(|(records, high)| {
        let mark = format!("high watermark {high}");
        records.iter().map(shown).chain([mark]).collect::<Vec<_>>()
    });
    print("PartitionClient.fetch_records", texts);
    let beyond = partition.fetch_records(100, BYTES, 100).await;
    print(
        "PartitionClient.fetch_records/beyond",
        beyond.map(|(records, _)| records.len()),
    );
    for (remark, start) in [("earliest", StartOffset::Earliest), ("at", StartOffset::At(3))] {
        let stream = StreamConsumerBuilder::new(Arc::clone(partition), start)
            .with_max_wait_ms(100)
            .build();
        let records: Vec<_> = stream.take(4).collect().await;
        let offsets: Result<Vec<i64>> = records
            .into_iter()
            .map(|one| one.map(|(found, _)| found.offset))
            .collect();
        print(&format!("StreamConsumer/{remark}"), offsets);
    }
}

async fn offsets(partition: &PartitionClient) {
    let at = |seconds: i64| OffsetAt::Timestamp(Utc.timestamp_opt(seconds, 0).unwrap());
    for (remark, asked) in [
        ("earliest", OffsetAt::Earliest),
        ("latest", OffsetAt::Latest),
        ("time", at(3)),
        ("later", at(99)),
    ] {
        print(
            &format!("PartitionClient.get_offset/{remark}"),
            partition.get_offset(asked).await,
        );
    }
    print(
        "PartitionClient.delete_records",
        partition.delete_records(5, TIMEOUT_MS).await.map(|()| DONE),
    );
    print(
        "PartitionClient.get_offset/deleted",
        partition.get_offset(OffsetAt::Earliest).await,
    );
    print(
        "PartitionClient.delete_records/beyond",
        partition.delete_records(100, TIMEOUT_MS).await.map(|()| DONE),
    );
    print(
        "PartitionClient.fetch_records/deleted",
        partition
            .fetch_records(0, BYTES, 100)
            .await
            .map(|(records, _)| records.len()),
    );
}
