"""What a worker process gives up before it imports a vendor's code, and how it is told what this host can't enforce."""
