// The accounts of the demo preset. Their secrets are public. Another venue refuses them.

export const DEMO_ACCOUNTS = [
  { id: 'demo-a', secret: 'demo-a-secret', purpose: 'trades' },
  { id: 'demo-b', secret: 'demo-b-secret', purpose: 'trades' },
  { id: 'demo-operator', secret: 'demo-operator-secret', purpose: 'runs the venue' },
] as const;

export function demoSecret(clientId: string): string | undefined {
  return DEMO_ACCOUNTS.find((account) => account.id === clientId)?.secret;
}
