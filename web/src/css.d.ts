/** Style sheets go into the bundle. */
declare module "*.css";
