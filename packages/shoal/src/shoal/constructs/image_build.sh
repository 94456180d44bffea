# What CodeBuild runs, in bash, with the values in braces filled in when the template is made. Nothing is built for a tag that is there:
# tags never move, so its image is the one this recipe gave.
set -euo pipefail
digest() {{ aws ecr batch-get-image --repository-name {repository} --image-ids imageTag={tag} --query 'images[0].imageId.imageDigest' --output text; }}
log_in() {{ aws ecr get-login-password | docker login --username AWS --password-stdin "$1"; }}
found=$(digest)
if [ "$found" = None ]; then
  for registry in {registries}; do log_in "$registry"; done
  {index}DOCKER_BUILDKIT=1 {build}
  docker push {uri}:{tag}
  found=$(digest)
fi
case "$found" in
  sha256:*) {tagged}aws ssm put-parameter --name {parameter} --type String --overwrite --value {uri}@"$found" ;;
  *) echo "the registry has no digest for {uri}:{tag}" >&2; exit 1 ;;
esac
