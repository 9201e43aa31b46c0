"""The agent that follows log files and sends each added line to a topic; the command is
`kqueue collect`.

    file_discovery  which files a pattern matches, and the names that a rotation gives
    tailed_file     one open file, with the position read and the position confirmed
    file_tailer     all files: rotation, truncation, files that disappear and return
    fingerprint     recognises a file by the bytes around a position
    line_splitter   bytes into lines
    line_sender     lines into records, until the broker confirms them
    state_file      the positions on disk
    resume_dedup    lines that a killed agent had sent but not recorded
    agent           the loop over all of these

Delivery is at least once; lines come twice only in the cases that docs/collect.md lists.
"""
