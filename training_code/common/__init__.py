"""What the scripts of several workloads share; a workload's source archive carries it along."""
