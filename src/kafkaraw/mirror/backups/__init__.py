"""Backups of topics in files on any filesystem of fsspec, and what restores them.

`backup.back_up` adds a run to a backup, `restore.restore` writes a backup into a cluster, `checking.check` reads all
files. `manifest` has the format of what says which files there are, `data_files` that of records, `store` the
filesystem. Start at `manifest.Manifest`.
"""
