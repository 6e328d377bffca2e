// Stands in for react-custom-scrollbars-2, which expects a bundler that resolves CommonJS in another way.
import { forwardRef } from 'react';

export const Scrollbars = forwardRef(({ children, style }, ref) => <div ref={ref} style={{ overflow: 'hidden', ...style }}>{children}</div>);
export default Scrollbars;
