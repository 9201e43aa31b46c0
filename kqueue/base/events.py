"""The table of the events of the log; `log_event` says how lines are written.

docs/log-events.md shows it, with the fields of each event. To add an event: a row below, and a line
that uses it.
"""

from __future__ import annotations

from logging import ERROR, INFO, WARNING

from kqueue.base.log_event import LogEvent as _Row

# --- a broker

BROKER_STARTED = _Row("broker.started", INFO, "The broker serves clients.")
BROKER_STOPPING = _Row("broker.stopping", INFO, "A stop has begun.")
BROKER_STOPPED = _Row("broker.stopped", INFO, "The stop is complete.")
BROKER_FAILED = _Row(
    "broker.failed",
    ERROR,
    "The broker can't start, or not stop cleanly: it ends with exit status 1, with 2 for a wrong setting.",
    "Do what the message says, start again.",
)
UNCLEAN_STOP = _Row(
    "broker.unclean-stop",
    WARNING,
    "The last stop was not clean, so all logs are checked.",
    "Nothing; find out what ended the process: `kill -9`, memory, power.",
)
CONNECTIONS_UNANSWERED = _Row(
    "broker.connections-unanswered",
    WARNING,
    "The stop closes connections that did not take all responses.",
    "Raise `kqueue.stop.timeout.ms` if clients need longer.",
)
LEADERSHIPS_NOT_TAKEN = _Row(
    "broker.leaderships-not-taken",
    WARNING,
    "The broker stops before others lead all its partitions, whose clients wait for the end of its session.",
    "Look for partitions without in-sync replicas: `kqueue topics describe --under-replicated`.",
)
LOOP_BLOCKED = _Row(
    "loop.blocked",
    WARNING,
    "Something holds the event loop, so no client is served.",
    "The line names it: disable the plugin, or report it. It may be a machine without free processor time or memory.",
)
LOOP_RUNS_AGAIN = _Row("loop.runs-again", INFO, "The event loop runs again after `loop.blocked`.")
INTERNAL_ERROR = _Row(
    "internal.error",
    ERROR,
    "An unexpected error inside of the broker: a defect of kqueue or of a plugin.",
    "Report it with the traceback that follows. The broker goes on.",
)
EXTRA_BROKEN = _Row(
    "extra.broken",
    WARNING,
    "The extra `fast` is installed and does not work; plain Python does its work.",
    "Install it again: `pip install --force-reinstall 'kqueue[fast]'`.",
)
HOOK_FAILED = _Row("hook.failed", ERROR, "A hook of a test raised an error, and is ignored.", "Mend the hook.")
TIME_ADVANCED = _Row("time.advanced", INFO, "A test has advanced the broker's time.")
TIME_ADVANCE_WAITING = _Row("time.advance-waiting", WARNING, "Advancing the time waits for jobs that do not end.")
GREEN_THREADS = _Row(
    "embedded.green-threads",
    WARNING,
    "gevent or eventlet has replaced the threads of the process of an embedded broker.",
    "See [embedded brokers](testing.md).",
)

# --- workers of one machine, and their surroundings

WORKERS_STARTED = _Row("workers.started", INFO, "All workers of `kqueue serve --workers` serve.")
WORKER_ENDED = _Row(
    "worker.ended", ERROR, "The process of a worker has ended, and is started again.", "The line says why it ended."
)
WORKER_KILLED = _Row(
    "worker.killed", ERROR, "A worker did not stop in time, and is killed.", "Expect `broker.unclean-stop` of it."
)
SERVICE_MANAGER_UNREACHED = _Row(
    "service-manager.unreached",
    WARNING,
    "systemd was not notified that the broker serves or stops.",
    "Look at `NOTIFY_SOCKET` and `NotifyAccess=`.",
)
METRICS_OPENED = _Row("metrics.opened", INFO, "Metrics and health are served.")
METRICS_NAMES_LIMITED = _Row(
    "metrics.names-limited",
    WARNING,
    "There are more topics or groups than metrics name; the rest is counted together.",
    "Raise `kqueue.metrics.names.max` if Prometheus can take them.",
    is_limited=True,
)
METRICS_CLIENTS_LIMITED = _Row(
    "metrics.clients-limited",
    WARNING,
    "More clients push metrics than are passed on to the collector; those of the others are dropped.",
    "Raise `kqueue.metrics.names.max` if the collector can take them.",
)
METRICS_NOT_PUSHED = _Row(
    "metrics.not-pushed",
    WARNING,
    "The collector of `kqueue.metrics.otlp.endpoint` does not take metrics. What is counted meanwhile comes later.",
    "The line says why: start the collector, or mend the address or `kqueue.metrics.otlp.headers`.",
)
METRICS_PUSHED_AGAIN = _Row("metrics.pushed-again", INFO, "The collector takes metrics again.")

# --- settings and changes

SETTING_LEFT_OUT = _Row(
    "setting.left-out", WARNING, "A setting is not known, or not used.", "Correct its name, or remove it."
)
SETTING_WITHOUT_EFFECT = _Row(
    "setting.without-effect", WARNING, "A setting is accepted and has no effect.", "The line says why; remove it."
)
SETTING_CHANGED = _Row("setting.changed", INFO, "A setting was changed at run time.", is_limited=True)
LOGGER_LEVEL_CHANGED = _Row("logger.level-changed", INFO, "The level of a logger was changed.", is_limited=True)
STORED_SETTING_IGNORED = _Row(
    "setting.stored-ignored",
    ERROR,
    "A setting that is kept in the metadata can't be used.",
    "Set it again with `kqueue configs alter`.",
)
STORED_SETTINGS_UNCHECKED = _Row(
    "setting.unchecked",
    ERROR,
    "New settings could not be checked, because of an unexpected error.",
    "Report it; set them again.",
)
AUDIT = _Row(
    "audit",
    INFO,
    "Who was allowed to change something, or was denied something ([audit log](security.md)).",
    "Keep these lines; look at those with `denied`.",
)
TOPIC_CREATED = _Row("topic.created", INFO, "The command created a topic that was missing.")
TOPIC_CHANGE_IGNORED = _Row(
    "topic.change-ignored",
    ERROR,
    "A changed topic can't be read from the metadata, and stays as it was.",
    "Look at the topic in the metadata store; restore it from a backup.",
)

# --- listeners, connections and requests

LISTENER_NOT_OPENED = _Row("listener.not-opened", INFO, "A listener of Kafka's controllers is not needed.")
LISTENER_INSECURE = _Row(
    "listener.insecure",
    WARNING,
    "Other machines reach a listener that does not protect what it should.",
    "Do what the message says ([security](security.md)).",
)
LISTENER_FAILED = _Row(
    "listener.failed",
    ERROR,
    "No connection can be accepted for now.",
    "Mostly the limit on open files: raise `LimitNOFILE` or `ulimit -n`.",
)
CONNECTION_REFUSED = _Row(
    "connection.refused",
    WARNING,
    "A new connection was closed because of a limit.",
    "Raise `max.connections`, `max.connections.per.ip` or the quota if the client is yours.",
    is_limited=True,
)
CONNECTION_NOT_SERVED = _Row(
    "connection.not-served",
    ERROR,
    "A connection was accepted and could not be served: the system refused.",
    "Look at the limits on open files and memory.",
)
CONNECTION_CLOSED = _Row(
    "connection.closed",
    WARNING,
    "The broker closed a connection: bytes that are no request, a failed handshake, a client that is too slow.",
    "Look at the client. Requests that do not parse from unknown addresses are scans.",
    is_limited=True,
)
CONNECTION_FAILED = _Row(
    "connection.failed",
    ERROR,
    "A connection was closed because of an unexpected error.",
    "Report it with the traceback that follows.",
)
CONNECTION_ENDED = _Row(
    "connection.ended", INFO, "The broker closed a connection in order, mostly an idle one.", is_limited=True
)
CONNECTION_LOST = _Row(
    "connection.lost",
    INFO,
    "A connection broke off in the middle of a request.",
    "Many of them: look at the network, or at clients that are killed.",
    is_limited=True,
)
AUTHENTICATION_FAILED = _Row(
    "authentication.failed",
    ERROR,
    "An authentication ended by an unexpected error, mostly of a plugin. Wrong passwords are in the audit log.",
    "The traceback follows.",
)
REQUEST_REFUSED = _Row(
    "request.refused",
    WARNING,
    "A request has more entries than one request may have.",
    "Raise `kqueue.request.max.items` if the client is yours.",
    is_limited=True,
)
REQUEST_FAILED = _Row(
    "request.failed",
    ERROR,
    "A request was answered with an error because of an unexpected error.",
    "Report it with the traceback that follows.",
)
REQUEST_STORAGE_FAILED = _Row(
    "request.storage-failed",
    ERROR,
    "A request was answered with an error because the storage failed.",
    "Look at the disk, and for `log.offline`, `data-folder.offline` or `metadata-store.unreadable`.",
)
REQUEST_SLOW = _Row(
    "request.slow",
    WARNING,
    "A request took longer than `kqueue.slow.request.ms`.",
    "`waited_ms`: it waited for a disk, other brokers or other requests; `handled_ms`: it did much at once.",
    is_limited=True,
)
REQUEST_SAMPLED = _Row("request.sampled", INFO, "One of the requests that `kqueue.request.log.sample` asks for.")
OPEN_FILES_LIMIT_LOW = _Row(
    "open-files.limit-low",
    WARNING,
    "The limit on open files allows fewer connections than `max.connections`.",
    "Raise `LimitNOFILE` or `ulimit -n`.",
)
OPEN_FILES_EXHAUSTED = _Row(
    "open-files.exhausted",
    ERROR,
    "Too many files are open, so requests are refused.",
    "Raise `LimitNOFILE` or `ulimit -n`; clients repeat their requests.",
)

# --- security

CERTIFICATE_RENEWED = _Row("certificate.renewed", INFO, "A listener uses its new key store or trust store.")
CERTIFICATE_REFUSED = _Row(
    "certificate.refused", ERROR, "A new key store can't be used; the one before still is.", "Correct the file."
)
CERTIFICATE_UNREADABLE = _Row(
    "certificate.unreadable", ERROR, "The key stores of a listener can't be looked at.", "Look at path and permissions."
)
CERTIFICATE_EXPIRING = _Row(
    "certificate.expiring",
    WARNING,
    "The certificate of a listener ends soon, or has ended.",
    "Replace the file; it is read without a restart.",
)
JWKS_UNREADABLE = _Row(
    "jwks.unreadable",
    WARNING,
    "The keys of the identity provider can't be read; those known are used.",
    "Look at the provider, and at the way to it.",
    is_limited=True,
)
AUTHORIZER_FAILED = _Row(
    "authorizer.failed",
    ERROR,
    "The authorizer raised an error or answered wrongly, so the actions are denied.",
    "Mend the plugin; the traceback says where.",
)
ACLS_UNREADABLE = _Row(
    "acl.unreadable",
    ERROR,
    "A change of the ACLs can't be read, so everything is denied.",
    "Look at the ACLs in the metadata store; restore them from a backup.",
)
SCRAM_CREDENTIALS_DAMAGED = _Row(
    "scram.credentials-damaged",
    ERROR,
    "The stored credentials of a user are damaged, so the user can't authenticate.",
    "Set the password again, or remove the user: `kqueue users`.",
)
SCRAM_SALTS_NOT_KEPT = _Row(
    "scram.salts-not-kept",
    WARNING,
    "The secret that hides which users exist could not be kept.",
    "Look at the metadata store.",
)
TOKENS_UNREADABLE = _Row(
    "token.unreadable",
    ERROR,
    "Delegation tokens can't be used.",
    "Look at `delegation.token.secret.key`, which must be that of their creation, and create them again.",
)
TOKENS_NOT_REMOVED = _Row(
    "token.not-removed", WARNING, "Ended delegation tokens are kept for now.", "Look at the metadata store."
)

# --- disks and data folders

DISK_FULL = _Row("disk.full", WARNING, "A disk is full, so appends to it are refused.", "Make room on it.")
DISK_EMERGENCY_FILE_REMOVED = _Row(
    "disk.emergency-file-removed", WARNING, "The last reserve of a full disk is used.", "Make room on it at once."
)
DISK_HAS_ROOM = _Row("disk.has-room", INFO, "A disk has room again, and producers are served.")
PRODUCERS_REFUSED = _Row(
    "disk.producers-refused",
    WARNING,
    "A disk has less room than `kqueue.disk.reserve.bytes`, so producers are refused.",
    "Make room: shorten the retention, move partitions, enlarge the disk.",
)
DATA_FOLDER_OFFLINE = _Row(
    "data-folder.offline",
    ERROR,
    "A data folder can't be used, and its partitions are not served.",
    "Look at the disk and its mount; then start again.",
)
DATA_FOLDER_NOT_USED = _Row(
    "data-folder.not-used", ERROR, "A data folder takes no new partition.", "Look at the disk of the folder."
)
DATA_FOLDER_NOT_PRIVATE = _Row(
    "data-folder.not-private", WARNING, "Other users of the machine can read or write a data folder.", "`chmod 700` it."
)
DATA_FOLDER_UNEXPECTED_FILE = _Row(
    "data-folder.unexpected-file",
    ERROR,
    "A file or a link has the name of a partition, which is not served.",
    "Move it away; links are never followed.",
)
DATA_FOLDER_OLDER_COPY = _Row(
    "data-folder.older-copy",
    WARNING,
    "The data folders are an older copy of what this broker had: a restored image.",
    "Nothing in a cluster, others lead; else restore a newer copy.",
)
LOCK_UNCHECKED = _Row("lock.unchecked", ERROR, "The lock of a data folder can't be checked.", "Look at the disk.")
LOCK_TAKEN_AGAIN = _Row(
    "lock.taken-again",
    ERROR,
    "The lock file of a data folder was gone or another, and is taken again.",
    "Remove lock files only when no broker runs.",
)
CHECKPOINT_NOT_WRITTEN = _Row(
    "checkpoint.not-written",
    ERROR,
    "A checkpoint could not be written; the one before still holds.",
    "Look at the disk. The next start may have more to recover.",
)
CHECKPOINT_DAMAGED = _Row(
    "checkpoint.damaged",
    ERROR,
    "A small file of a data folder is damaged, and is not used.",
    "Look at the disk; the logs themselves are checked instead.",
)
PARTITION_METADATA_DAMAGED = _Row(
    "partition-metadata.damaged", WARNING, "The file with a topic id is damaged, and is written again."
)
PARTITION_IN_SEVERAL_FOLDERS = _Row(
    "partition.in-several-folders",
    ERROR,
    "Two data folders have records of one partition, which is not served.",
    "Take one of the folders away, and start again.",
)
PARTITION_FOLDERS_NOT_MADE = _Row(
    "partition.folders-not-made",
    ERROR,
    "Folders of new partitions could not be made; their first use tries again.",
    "Look at the disk.",
)
FILES_NOT_REMOVED = _Row(
    "files.not-removed",
    ERROR,
    "Deleted files stay on the disk for now.",
    "Look at the disk; the next start tries again.",
)
FILES_NOT_RENAMED = _Row(
    "files.not-renamed", ERROR, "Files that are to be deleted keep their names for now.", "Look at the disk."
)
FILES_REMOVAL_RESUMED = _Row("files.removal-resumed", INFO, "A deletion that the last stop interrupted is completed.")
STRAY_FOLDER_RENAMED = _Row(
    "stray-folder.renamed",
    WARNING,
    "The folder of a partition that no topic has was renamed.",
    "Remove it if it is not needed: `kqueue log dump` shows what it holds.",
)

# --- tiered storage

TIER_CACHE_FAILED = _Row(
    "tier.cache-failed",
    WARNING,
    "Chunks of tiered segments can't be kept on disk, and are fetched from the store more often.",
    "Look at the disk of the folder; what is fetched next is kept there again once it can be written.",
)
TIER_REFUSED = _Row(
    "tier.refused",
    ERROR,
    "The tier belongs to another cluster: nothing is copied there, and nothing of it is deleted.",
    "Name another bucket, folder or prefix in `kqueue.tier.url`.",
)
TIER_UNREACHABLE = _Row(
    "tier.unreachable",
    WARNING,
    "The object store of the tier does not answer. Segments stay here, and producers go on.",
    "Check `kqueue.tier.url`, the credentials and the network; the broker tries again.",
)
TIER_COPIED = _Row("tier.copied", INFO, "A sealed segment was copied into the tier.")
TIER_DELETED = _Row("tier.deleted", INFO, "Segments below the log start were deleted from the tier.")
TIER_ADOPTED = _Row(
    "tier.adopted", INFO, "A leader without a batch goes on where the tier's part of its partition ends."
)
TIER_FAILED = _Row(
    "tier.failed",
    WARNING,
    "A partition's part of the tier can't be changed: its segments stay here, or there.",
    "Do what the message says; the broker tries again.",
)
TIER_CORRUPT = _Row(
    "tier.corrupt",
    ERROR,
    "A partition's part of the tier is damaged, or lacks records that the disk lacks, too: nothing more is copied.",
    "Do what the message says; the broker tries again.",
)
TIER_READ_FAILED = _Row(
    "tier.read-failed",
    WARNING,
    "Consumers can't be given records of the tier; they try again.",
    "Do what the message says.",
)

# --- logs

LOG_DAMAGED = _Row(
    "log.damaged",
    ERROR,
    "Bytes of a log are damaged; they are not served, the rest is.",
    "Look at the disk; `kqueue log verify` lists all damage. Replicas or a backup may have the records.",
)
LOG_READ_ONLY = _Row(
    "log.read-only",
    ERROR,
    "A write failed, so the log takes no records until the next start; what was flushed is served.",
    "Look at the disk; then start again.",
)
LOG_OFFLINE = _Row(
    "log.offline",
    ERROR,
    "A log can't be read or written, and is not served until the next start.",
    "Look at the disk; then start again.",
)
LOG_UNVERIFIED = _Row(
    "log.unverified", ERROR, "A part of a log could not be verified, and is not served.", "Look at the disk."
)
LOG_NOT_CLOSED = _Row(
    "log.not-closed", ERROR, "The stop could not write everything.", "Look at the disk; the next start recovers."
)
LOG_NOT_CLEAN = _Row(
    "log.not-clean",
    ERROR,
    "A log does not look as its clean stop says, and is recovered.",
    "Find out what changed its files: a disk, a restored copy, another program.",
)
LOG_CUT = _Row("log.cut", WARNING, "The unfinished end of a log was cut, as a crash leaves it.")
LOG_CUT_KEPT = _Row(
    "log.cut-kept",
    ERROR,
    "A log was cut where it is damaged, and what lay behind is kept in a file.",
    "`kqueue log dump` shows what the file holds.",
)
LOG_END_MISSING = _Row(
    "log.end-missing",
    ERROR,
    "Records that were flushed are gone from the end of a log; their offsets are not given out again.",
    "Look at the disk. Replicas or a backup may have them.",
)
SEGMENT_QUARANTINED = _Row(
    "log.segment-quarantined",
    ERROR,
    "A segment behind the end of its log is kept under another name.",
    "`kqueue log dump` shows what it holds.",
)
INDEX_REBUILT = _Row("index.rebuilt", WARNING, "A wrong index was rebuilt from its segment.")
INDEX_NOT_REBUILT = _Row(
    "index.not-rebuilt", ERROR, "A wrong index could not be rebuilt; reads are slower.", "Look at the disk."
)
INDEX_MISMATCH = _Row(
    "index.mismatch",
    ERROR,
    "An index does not fit its segment; it is written again, or reads go around it.",
    "Look at the disk if there are many.",
)
PRODUCER_STATE_DAMAGED = _Row(
    "producer-state.damaged",
    ERROR,
    "The state of idempotent producers is not complete, because the log is damaged.",
    "Expect a duplicate of producers that repeat a batch at this moment.",
)
PRODUCER_SNAPSHOT_DAMAGED = _Row(
    "producer-snapshot.damaged", WARNING, "A producer snapshot is damaged, and an older one is used."
)
PRODUCER_IDS_FORGOTTEN = _Row(
    "producer-id.forgotten",
    WARNING,
    "More producer ids are in use than are remembered.",
    "Raise `kqueue.max.producer.ids`, or let clients use fewer.",
    is_limited=True,
)
CODEC_FAILED = _Row(
    "codec.failed", ERROR, "A codec raised an error that it should not.", "Mend the plugin; the traceback says where."
)
RECOVERY_STARTED = _Row("recovery.started", INFO, "Logs are recovered; each is served when it is ready.")
RECOVERY_PROGRESS = _Row("recovery.progress", INFO, "How many logs are recovered.")
RECOVERY_ENDED = _Row("recovery.ended", INFO, "All logs are recovered, but those that failed.")
RECOVERY_FAILED = _Row(
    "recovery.failed", ERROR, "A log can't be recovered, and is not served.", "The line says why; look at the disk."
)
RECOVERY_IN_THREAD = _Row(
    "recovery.in-thread", WARNING, "No process can be started, so recovery uses a thread and takes longer."
)
SEGMENTS_DROPPED = _Row("retention.dropped", INFO, "Segments were dropped, by the policy that the line names.")
CLEANUP_FAILED = _Row(
    "retention.failed",
    ERROR,
    "A cleanup policy failed on a partition, whose log grows.",
    "Look at the disk, or mend the plugin.",
)
PRE_DELETE_STARTED = _Row("pre-delete.started", INFO, "A policy works on segments before they are dropped.")
PRE_DELETE_SLOW = _Row("pre-delete.slow", WARNING, "The work of a policy takes over an hour.", "Look at its target.")
PRE_DELETE_REPEATED = _Row("pre-delete.repeated", INFO, "A partition has changed meanwhile; the work is done again.")
PRE_DELETE_ENDED_EARLY = _Row("pre-delete.ended-early", INFO, "Segments went while a policy worked on them.")
PRE_DELETE_FAILED = _Row(
    "pre-delete.failed",
    ERROR,
    "A policy failed before a deletion; nothing is dropped, and it is tried again.",
    "Mend the plugin or its target, before the disk is full.",
)
COMPACTION_STARTED = _Row("compaction.started", INFO, "A log is being compacted.")
COMPACTION_ENDED = _Row("compaction.ended", INFO, "A log is compacted.")
COMPACTION_STOPPED = _Row("compaction.stopped", INFO, "A compaction ended with its log.")
COMPACTION_RESUMED = _Row("compaction.resumed", WARNING, "A compaction that a crash interrupted is completed.")
COMPACTION_FAILED = _Row(
    "compaction.failed", WARNING, "A compaction failed and changed nothing; it is tried again.", "Look at the disk."
)
COMPACTION_EXCLUDED = _Row(
    "compaction.excluded",
    ERROR,
    "A log can't be compacted, and grows; other logs are compacted.",
    "The line says why: `kqueue log verify` shows damage.",
)
MOVE_STARTED = _Row("move.started", INFO, "A partition is being moved to another data folder.")
MOVE_ENDED = _Row("move.ended", INFO, "A partition was moved.")
MOVE_GIVEN_UP = _Row("move.given-up", INFO, "A move was ended; the partition stays where it is.")
MOVE_SOURCE_REMOVED = _Row("move.source-removed", INFO, "The old files of a moved partition are removed.")
MOVE_COPY_LEFT = _Row(
    "move.copy-left",
    WARNING,
    "The unfinished copy of a partition is left, which no other data folder has.",
    "Remove it if it is not needed.",
)
MOVE_FAILED = _Row("move.failed", ERROR, "A move failed.", "Look at both disks; begin the move again.")
BACKLOG_TOO_LARGE = _Row(
    "backlog.too-large",
    WARNING,
    "Consumers are so far behind that producers are slowed or refused (`kqueue.backlog.*`).",
    "Look at the groups that the line names: `kqueue groups describe`.",
)
BACKLOG_CAUGHT_UP = _Row("backlog.caught-up", INFO, "Consumers have caught up, and producers go on.")
BACKLOG_UNKNOWN = _Row(
    "backlog.unknown", ERROR, "A partition can't be opened, so its backlog counts as empty.", "Look at the disk."
)

# --- import from Kafka, and between single brokers and clusters

IMPORT_ENDED = _Row("import.ended", WARNING, "The data folder of another broker was taken over.")
IMPORT_SETTINGS_UNKNOWN = _Row(
    "import.settings-unknown",
    WARNING,
    "The settings of a topic are not known, so all its records are kept.",
    "Set its `retention.ms`.",
)
IMPORT_SETTING_IGNORED = _Row("import.setting-ignored", WARNING, "A setting of an imported topic is not used.")
IMPORT_METADATA_DAMAGED = _Row(
    "import.metadata-damaged",
    ERROR,
    "Kafka's metadata log can't be read to its end, so later changes to topics are not known.",
    "Compare topics and settings with those of the old cluster.",
)
METADATA_TAKEN_OVER = _Row("metadata.taken-over", WARNING, "Topics of a single broker or of a cluster are taken over.")

# --- metadata stores

METADATA_STORE_UNREADABLE = _Row(
    "metadata-store.unreadable",
    ERROR,
    "The metadata store can't be read; the broker serves with what it knows.",
    "Look at the store. Changes are refused meanwhile.",
)
METADATA_STORE_READABLE = _Row("metadata-store.readable", WARNING, "The metadata store can be read again.")
METADATA_STORE_WATCH_FAILED = _Row(
    "metadata-store.watch-failed",
    WARNING,
    "The metadata store can't be watched for changes; it is tried again.",
    "Look at the store.",
)
METADATA_STORE_HELD_UP = _Row(
    "metadata-store.held-up",
    WARNING,
    "A process holds the metadata store, and all others wait.",
    "Find the process that hangs, and end it.",
)
METADATA_CHANGE_IGNORED = _Row(
    "metadata.change-ignored",
    ERROR,
    "A change of the metadata can't be applied.",
    "Restart the broker; report it with the traceback or the message.",
)
ZOOKEEPER_LOST = _Row(
    "zookeeper.lost", WARNING, "The connection or the session with ZooKeeper is lost.", "Look at ZooKeeper."
)
ZOOKEEPER_CONNECTED = _Row("zookeeper.connected", INFO, "ZooKeeper is connected again.")
ZOOKEEPER_CLOSE_FAILED = _Row("zookeeper.close-failed", WARNING, "The connection to ZooKeeper did not end in order.")

# --- clusters

REGISTRATION_WAITING = _Row(
    "registration.waiting",
    WARNING,
    "The session of this broker's last process has not ended yet.",
    "Wait; if it does not end, another process has the same `node.id`.",
)
REGISTRATION_FAILED = _Row(
    "registration.failed", ERROR, "The broker can't register with its cluster.", "Do what the message says."
)
REGISTRATION_MARK_FAILED = _Row(
    "registration.mark-failed", WARNING, "A data folder can't be marked with the broker's epoch.", "Look at the disk."
)
REGISTRATION_MARK_KEPT = _Row("registration.mark-kept", INFO, "A data folder keeps a mark that is harmless.")
SESSION_HEARTBEAT_FAILED = _Row(
    "session.heartbeat-failed",
    ERROR,
    "The metadata store takes no sign of life of this broker, which serves on.",
    "Look at the store: when the session ends, others take over.",
)
SESSION_HEARTBEAT_RESTORED = _Row(
    "session.heartbeat-restored", WARNING, "The metadata store takes signs of life again."
)
SESSION_REGISTERED_AGAIN = _Row(
    "session.registered-again",
    WARNING,
    "The session with the cluster had ended, and the broker registered again.",
    "Look for pauses of this machine, or raise `broker.session.timeout.ms`.",
)
SESSION_NOT_ENDED = _Row("session.not-ended", WARNING, "The stop could not end the session, which ends by its timeout.")
RECORDS_MAY_BE_MISSING = _Row(
    "records.may-be-missing",
    WARNING,
    "The last stop was not clean, so others lead until this broker has caught up.",
    "Nothing where partitions have several replicas.",
)
CONTROLLER_ELECTED = _Row("controller.elected", INFO, "This broker is the controller.")
CONTROLLER_RESIGNED = _Row("controller.resigned", INFO, "This broker is not the controller any more.")
CONTROLLER_DECIDED = _Row("controller.decided", INFO, "What the controller has decided for a partition.")
CONTROLLER_TOPIC_SKIPPED = _Row(
    "controller.topic-skipped",
    ERROR,
    "The controller can't read a topic, and leaves it alone.",
    "Look at the topic in the metadata store.",
)
CONTROLLER_FAILED = _Row(
    "controller.failed", ERROR, "The controller can't go on; it tries again.", "Report it with the traceback."
)
UNCLEAN_ELECTION = _Row(
    "election.unclean",
    WARNING,
    "A replica that may lack records became the leader, as `unclean.leader.election.enable` allows.",
    "Expect lost records; look at why all in-sync replicas were gone.",
)
REPLICA_CHANGED = _Row("replica.changed", INFO, "This broker leads a partition, follows, or has no replica any more.")
REPLICA_COPYING_FAILED = _Row(
    "replica.copying-failed",
    WARNING,
    "A follower can't copy from its leader, and tries again.",
    "Look at the leader and at the network.",
)
REPLICA_COPYING_ENDED = _Row(
    "replica.copying-ended",
    ERROR,
    "A follower copies no more, because its log failed.",
    "Look at its disk; restart it.",
)
REPLICA_TRUNCATED = _Row("replica.truncated", INFO, "A follower dropped records that its leader does not have.")
REPLICA_RECORDS_LOST = _Row(
    "replica.records-lost",
    ERROR,
    "Committed records are lost, because a leader was elected that did not have them.",
    "Look for `election.unclean`; producers may have them.",
)
REPLICA_BEGUN_AGAIN = _Row(
    "replica.begun-again", WARNING, "A follower's log had no part in common with its leader's, and begins again."
)
REPLICA_SKIPS_TIER = _Row(
    "replica.skips-tier",
    INFO,
    "A follower begins where its leader's local log starts; the tier has what is before.",
)
ISR_CHANGED = _Row("isr.changed", INFO, "The leader changed the in-sync replicas of a partition.")
ISR_TOO_SMALL = _Row(
    "isr.too-small",
    WARNING,
    "Fewer replicas are in sync than `min.insync.replicas`, so acks=all is refused.",
    "Start the brokers that are missing, or look at why they lag.",
)
ISR_LARGE_ENOUGH = _Row("isr.large-enough", WARNING, "Enough replicas are in sync again.")
PARTITIONS_LEFT_TO_OTHERS = _Row(
    "partition.left-to-others",
    WARNING,
    "Partitions whose log failed here are left to other brokers.",
    "Look at the disk; then restart this broker.",
)
PEER_FAILED = _Row(
    "peer.failed", WARNING, "The connection to another broker failed.", "Look at that broker and at the network."
)
PEER_LEFT = _Row("peer.left", INFO, "The connection to a broker that stops in order has ended.")
PEER_CONNECTED = _Row("peer.connected", INFO, "Another broker is connected again.")

# --- groups, transactions, share groups, client metrics

COORDINATOR_LOAD_DELAYED = _Row(
    "coordinator.load-delayed", WARNING, "Groups or transactions of a partition are loaded later.", "Look at its log."
)
COORDINATOR_LOAD_FAILED = _Row(
    "coordinator.load-failed",
    ERROR,
    "Groups or transactions of a partition can't be served.",
    "`kqueue log verify` its folder; look at the disk.",
)
INTERNAL_TOPIC_DAMAGED = _Row(
    "internal-topic.damaged",
    ERROR,
    "Records of an internal topic are lost: offsets, transactions or share state.",
    "Look at the disk; set offsets again: `kqueue groups reset-offsets`.",
)
INTERNAL_TOPIC_NOT_CREATED = _Row(
    "internal-topic.not-created",
    WARNING,
    "An internal topic can't be created.",
    "Start more brokers, or lower the setting that the line names.",
    is_limited=True,
)
INTERNAL_TOPIC_NOT_TRIMMED = _Row(
    "internal-topic.not-trimmed", WARNING, "Records of an internal topic that are not needed any more are kept for now."
)
GROUP_LIMIT_REACHED = _Row(
    "group.limit-reached",
    WARNING,
    "A limit on groups or members refuses clients.",
    "Raise the setting that the line names if the clients are yours.",
    is_limited=True,
)
GROUP_ASSIGNMENT_FAILED = _Row(
    "group.assignment-failed",
    ERROR,
    "An assignor failed, so the group keeps its assignment.",
    "Mend the plugin, or choose another assignor.",
)
GROUP_PATTERN_FAILED = _Row(
    "group.pattern-failed", ERROR, "The patterns of a group can't be matched against topics.", "Simplify them."
)
STREAMS_TOPIC_NOT_CREATED = _Row(
    "streams.topic-not-created",
    WARNING,
    "An internal topic of a Kafka Streams application can't be created.",
    "The line says why.",
    is_limited=True,
)
TRANSACTION_TIMED_OUT = _Row(
    "transaction.timed-out",
    INFO,
    "A transaction is aborted, because it is older than its timeout.",
    "Look at the producer: it hangs or is gone.",
    is_limited=True,
)
TRANSACTION_NOT_ABORTED = _Row(
    "transaction.not-aborted", WARNING, "An old transaction can't be aborted yet.", "The line says why."
)
TRANSACTION_NOT_COMPLETED = _Row(
    "transaction.not-completed",
    WARNING,
    "The end of a transaction can't be written everywhere yet; it is tried again.",
    "Look at the partitions: consumers of committed records wait at it.",
)
TRANSACTIONAL_IDS_NOT_REMOVED = _Row(
    "transactional-id.not-removed", WARNING, "Expired transactional ids are kept for now."
)
SHARE_STATE_NOT_CREATED = _Row(
    "share.state-not-created",
    WARNING,
    "Partitions of a share group have no state yet, and are not served to it.",
    "Look at the topic `__share_group_state`.",
    is_limited=True,
)
SHARE_STATE_NOT_DELETED = _Row("share.state-not-deleted", WARNING, "The state of a share partition stays for now.")
SHARE_START_MOVED = _Row(
    "share.start-moved",
    WARNING,
    "A partition ends before the start of a share group, which starts at its end.",
    "Records were lost, or the topic was created again.",
)
DEAD_LETTERS_FAILED = _Row(
    "dead-letter.failed",
    WARNING,
    "Records can't be copied to the dead-letter topic, and stay.",
    "The line says why.",
    is_limited=True,
)
CLIENT_METRICS_RECEIVER_FAILED = _Row(
    "client-metrics.receiver-failed",
    WARNING,
    "The plugin that receives metrics of clients failed.",
    "Mend the plugin.",
    is_limited=True,
)
CLIENT_METRICS_SUBSCRIPTION_IGNORED = _Row(
    "client-metrics.subscription-ignored",
    WARNING,
    "A stored subscription to metrics of clients can't be used.",
    "Set it again: `kqueue configs alter`.",
)

# --- Spark: lines of its driver and executors

SPARK_RECORDS_UNREAD = _Row(
    "spark.records-unread", WARNING, "Records can't be read any more, or not yet.", "The line says why."
)
SPARK_RECORDS_MISSING = _Row(
    "spark.records-missing",
    WARNING,
    "Records that the query was to read are gone; it goes on with what is there.",
    "Lengthen the retention; `failOnDataLoss` stops the query instead.",
)
SPARK_LAG_UNKNOWN = _Row("spark.lag-unknown", WARNING, "How far queries are behind is not known.")
SPARK_PROGRESS_NOT_SHOWN = _Row(
    "spark.progress-not-shown", WARNING, "The group of a query does not show how far it is.", "The line says why."
)
SPARK_OPTION_WITHOUT_EFFECT = _Row(
    "spark.option-without-effect", WARNING, "An option has no meaning in a batch query.", "Remove it."
)
SPARK_STAGING_LEFT = _Row(
    "spark.staging-left", WARNING, "Staged records that are done with could not be dropped; they expire."
)
SPARK_TRANSACTIONS_OPEN = _Row(
    "spark.transactions-open", WARNING, "Transactions of a batch stay open until their timeout."
)

# --- the console in the browser

CONSOLE_CHANGE = _Row(
    "console.change",
    INFO,
    "A change or a login through the console, done or refused: the line says whose, and the outcome.",
)
CONSOLE_PAGE_FAILED = _Row(
    "console.page-failed",
    ERROR,
    "A page of the console ended in an unexpected error: a defect of kqueue.",
    "Report it with the traceback that follows. The console goes on.",
)
CONSOLE_SAMPLE_FAILED = _Row(
    "console.sample-failed",
    ERROR,
    "The console could not read a sample for its charts, which have a gap: a defect of kqueue.",
    "Report it with the traceback that follows. The next sample is taken as usual.",
)

# --- the schema registry

REGISTRY_RECORD_SKIPPED = _Row(
    "registry.record-skipped",
    WARNING,
    "A record of the topic of the schemas is not understood, and is skipped.",
    "The line says which and why: another program writes to the topic, or a registry of a later version.",
)
REGISTRY_INTERNAL_ERROR = _Row(
    "registry.internal-error",
    ERROR,
    "An unexpected error of the schema registry; its client gets status 500.",
    "Report it with the traceback that follows. The registry goes on.",
)
REGISTRY_STARTED = _Row("registry.started", INFO, "The schema registry has read its topic and serves clients.")
REGISTRY_TOPIC_CREATED = _Row(
    "registry.topic-created", INFO, "The topic of the schemas did not exist, and was created."
)
REGISTRY_TOPIC_UNCHECKED = _Row(
    "registry.topic-unchecked",
    WARNING,
    "The settings of the topic of the schemas can't be read; unless cleanup.policy is compact, it loses schemas.",
    "Allow the registry's user to describe the configs of the topic, or look at them: `kqueue configs describe`.",
)
REGISTRY_DISCONNECTED = _Row(
    "registry.disconnected",
    WARNING,
    "No broker answers the schema registry. What it has read is served; changes are refused.",
    "Find out why its brokers don't answer; it connects by itself.",
)
REGISTRY_RECONNECTED = _Row("registry.reconnected", INFO, "The schema registry reads its topic again.")
REGISTRY_STOPPED_READING = _Row(
    "registry.stopped-reading",
    ERROR,
    "The topic of the schemas was deleted, truncated or damaged: what was read is served, changes are refused.",
    "The line says what happened. Restore the topic, start the registry again.",
)
REGISTRY_LEADS = _Row("registry.leads", INFO, "This schema registry writes from now on.")
REGISTRY_FOLLOWS = _Row("registry.follows", INFO, "Another schema registry writes, and is sent the changes.")
REGISTRY_NO_LEADER = _Row(
    "registry.no-leader",
    WARNING,
    "No schema registry of the group may write.",
    "The line says why: give each registry its own `--advertised-url`, and at least one the right to write.",
)
REGISTRY_NOT_WRITING = _Row(
    "registry.not-writing",
    WARNING,
    "This schema registry was elected, and can't write to its topic yet; it tries again.",
    "The line says why.",
)
REGISTRY_ELECTION_FAILED = _Row(
    "registry.election-failed",
    WARNING,
    "This schema registry takes no part in the election; it tries again, and sends no changes to others meanwhile.",
    "The line says why: brokers that don't answer, or a missing right to read the group.",
)
REGISTRY_NOT_FENCED = _Row(
    "registry.not-fenced",
    WARNING,
    "The registry's user may not use the transactional id by which an earlier writer is shut out.",
    "Allow it to write and describe that transactional id; until then a writer that was replaced is stopped by its "
    "session alone.",
)

REGISTRY_ACLS_OLD = _Row(
    "registry.acls-old",
    WARNING,
    "The schema registry can't read the ACLs of the broker: those that it read last hold.",
    "The line says why: no broker answers, or the registry's user may no longer describe the cluster.",
)

# --- the log itself

LINES_LEFT_OUT = _Row(
    "log-lines.left-out",
    WARNING,
    "Clients caused more lines of one event than are written in a minute.",
    "Look at the lines of that event before it.",
)

EVENTS: tuple[_Row, ...] = tuple(row for row in globals().values() if isinstance(row, _Row))
"""All events, in the order of the table."""
