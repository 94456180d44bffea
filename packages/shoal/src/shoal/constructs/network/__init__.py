"""The VPC in which EFA works, or a part of an existing one."""
