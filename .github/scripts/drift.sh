# Shows what CloudFormation finds changed behind its back in one environment: drift.sh ENVIRONMENT ASSEMBLY.
# Fails only where .github/drift-allowed.txt exists, for a drifted resource whose logical id is not
# in it: CloudFormation reports some resources that nobody changed (docs/gitops.md).
set -euo pipefail
allowed=.github/drift-allowed.txt
shown="$(mktemp)"
trap 'rm -f "$shown"' EXIT

node_modules/.bin/cdk drift "$1/*" --app "$2" --ci --no-color --no-notices | tee "$shown"
# A drifted resource is `[~] TYPE PATH LOGICAL-ID` (`[-]` where it was deleted) at a line's start.
drifted="$(sed -nE 's/^\[[~-]\] .* ([A-Za-z0-9]+)$/\1/p' "$shown" | sort -u)"
if [ ! -f "$allowed" ]; then
  echo "Shown, and no failure: there is no $allowed. Drifted:" ${drifted:-nothing}
  exit 0
fi
others="$(grep -vxF -f <(sed -E 's/[[:space:]]*(#.*)?$//; /^$/d' "$allowed") <<< "$drifted" || true)"
if [ -n "$others" ]; then
  echo "drifted, and not in $allowed:" $others >&2
  exit 1
fi
