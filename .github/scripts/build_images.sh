# Builds the images of one environment that nobody has built: build_images.sh ENVIRONMENT ASSEMBLY.
# The stacks find an image by a parameter whose name ends with the hash of its recipe.
set -euo pipefail

# The project and the parameter of each image, from the outputs of the stacks that have a project.
images="$(python3 - "$2/assembly-$1" << 'END'
import json, pathlib, re, sys

for template in pathlib.Path(sys.argv[1]).glob("*.template.json"):
    outputs = json.loads(template.read_text()).get("Outputs", {})
    for name in outputs:
        if name.endswith("BuildProjectName"):
            parameter = name.replace("BuildProjectName", "ImageParameterName")
            values = outputs[name]["Value"], outputs[parameter]["Value"]
            if not all(re.fullmatch(r"[/\w][/\w.-]*", str(value)) for value in values):
                sys.exit(f"refused: {template.name} has {values}")  # the CLI reads file://NAME
            print(*values)
END
)"
missing=()
while read -r project parameter; do
  if [ -n "$project" ] && ! aws ssm get-parameter --name "$parameter" > /dev/null; then
    missing+=("$project")
  fi
done <<< "$images"
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

node_modules/.bin/cdk deploy "$1/*image" --app "$2" --require-approval never --ci --no-notices
for project in "${missing[@]}"; do
  build="$(aws codebuild start-build --project-name "$project" --query build.id --output text)"
  echo "$build builds an image: some 20 minutes"
  status=IN_PROGRESS
  while [ "$status" = IN_PROGRESS ]; do
    sleep 15
    status="$(aws codebuild batch-get-builds --ids "$build" --query 'builds[0].buildStatus' --output text)"
  done
  if [ "$status" != SUCCEEDED ]; then
    echo "$build ended as $status; its log is in /aws/codebuild/$project" >&2
    exit 1
  fi
done
